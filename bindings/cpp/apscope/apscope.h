// apscope for C++: everything that needs the standard library alone. <apscope/xtensor.h> and
// <apscope/multiprecision.h> are beside it, for those who have xtensor or Boost.
#pragma once

#include "allreduce.h"
#include "arithmetic.h"
#include "blocks.h"
#include "formats.h"
#include "quantizer.h"
#include "replay.h"
#include "statistics.h"
#include "trace.h"
