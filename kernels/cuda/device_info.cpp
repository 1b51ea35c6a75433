#include "kernels/cuda_executor.h"
