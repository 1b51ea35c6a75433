#include "kernels/cpu_scores.h"
