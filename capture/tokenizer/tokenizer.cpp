#include "capture/tokenizer.h"
