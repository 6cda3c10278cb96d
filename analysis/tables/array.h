// xtensor, for views and axis reductions over finished tables. Its headers moved in version 0.26:
// this header alone knows where they are. Never for sums over elements: those have a fixed shape
// (core/fixed_shape_sum.h).
#pragma once

#if __has_include(<xtensor/containers/xadapt.hpp>)
#include <xtensor/containers/xadapt.hpp>
#include <xtensor/containers/xarray.hpp>
#include <xtensor/core/xmath.hpp>
#include <xtensor/core/xoperation.hpp>
#else
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xoperation.hpp>
#endif
