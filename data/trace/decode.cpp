#include "data/trace_reader.h"
