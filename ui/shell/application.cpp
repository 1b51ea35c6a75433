#include "ui/application.h"
