#include "kernels/method.h"
