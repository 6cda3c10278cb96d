// All headers of apscope for C++ that need only the standard library. <apscope/xtensor.h> and
// <apscope/multiprecision.h> are separate, for users of xtensor or Boost.
#pragma once

#include <apscope/version.h>

#include "allreduce.h"
#include "arithmetic.h"
#include "blocks.h"
#include "cost.h"
#include "define_scheme.h"
#include "error.h"
#include "exchange.h"
#include "formats.h"
#include "names.h"
#include "packing.h"
#include "quantizer.h"
#include "rank_exchange.h"
#include "replay.h"
#include "schemes.h"
#include "statistics.h"
#include "summary.h"
#include "trace.h"
#include "trace_writer.h"
