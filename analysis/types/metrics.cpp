#include "analysis/types/head_statistics.h"
