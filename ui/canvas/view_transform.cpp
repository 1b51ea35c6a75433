#include "analysis/types/tile.h"
