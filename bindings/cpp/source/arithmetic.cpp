#include "bindings/cpp/apscope/arithmetic.h"

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "bindings/cpp/source/edge.h"
#include "bindings/cpp/source/overlap.h"
#include "core/error.h"
#include "core/float_environment.h"
#include "core/float_format.h"
#include "core/sizes.h"
#include "emulation/arithmetic/arithmetic.h"
#include "emulation/arithmetic/ordered_sum.h"

namespace apscope {
namespace {

template <class Real>
void operate(std::string_view operation, std::span<const Real> a, std::span<const Real> b,
             std::span<const Real> c, std::span<Real> out, const Rounding& how) try {
    const detail::FloatEnvironment environment;
    for (const std::span<const Real> operand : {a, b, c})
        if (operand.size() != 1) refuse_part(operand, out);
    validate(how.format);
    detail::arithmetic(detail::parse_operation(operation), a, b, c, out, how.format, how.projection,
                       how.seed, how.threads);
} catch (...) {
    detail::throw_error();
}

detail::SumOptions options_of(const Summation& how) {
    for (const auto& format : {std::optional(how.format), how.accumulate, how.product}) {
        if (format) validate(*format);
    }
    return {detail::parse_sum_order(how.order),
            how.format,
            how.accumulate,
            how.product,
            how.projection,
            how.seed,
            how.threads};
}

void check(std::string_view what, std::size_t length, std::initializer_list<std::size_t> sizes) {
    const std::size_t expected = detail::checked_size(sizes, what);
    if (length == expected) return;
    throw error(std::string(what) + " has " + std::to_string(length) +
                " numbers; the given sizes need " + std::to_string(expected));
}

template <class Real>
void add_up(std::span<const Real> x, std::size_t terms, std::span<Real> out,
            const Summation& how) try {
    const detail::FloatEnvironment environment;
    check("x", x.size(), {terms, out.size()});
    refuse_part(x, out);
    detail::ordered_sum<Real>(x, terms, out, options_of(how));
} catch (...) {
    detail::throw_error();
}

template <class Real>
void multiply_matrices(std::span<const Real> a, std::span<const Real> b, std::span<Real> out,
                       const MatrixSizes& s, const Summation& how, std::span<const Real> c) try {
    const detail::FloatEnvironment environment;
    check("a", a.size(), {s.batches, s.rows, s.terms});
    check("b", b.size(), {s.batches, s.terms, s.columns});
    check("out", out.size(), {s.batches, s.rows, s.columns});
    if (!c.empty()) check("c", c.size(), {s.batches, s.rows, s.columns});
    if (overlap(a, out) || overlap(b, out) || overlap(c, out))
        throw error("the product overlaps a factor or c; give another array");
    detail::ordered_matmul<Real>(a, b, s.batches, s.rows, s.terms, out, options_of(how), c);
} catch (...) {
    detail::throw_error();
}

}  // namespace

void arithmetic(std::string_view operation, std::span<const float> a, std::span<const float> b,
                std::span<const float> c, std::span<float> out, const Rounding& how) {
    operate(operation, a, b, c, out, how);
}
void arithmetic(std::string_view operation, std::span<const double> a, std::span<const double> b,
                std::span<const double> c, std::span<double> out, const Rounding& how) {
    operate(operation, a, b, c, out, how);
}
void sum(std::span<const float> x, std::size_t terms, std::span<float> out, const Summation& how) {
    add_up(x, terms, out, how);
}
void sum(std::span<const double> x, std::size_t terms, std::span<double> out,
         const Summation& how) {
    add_up(x, terms, out, how);
}
void matmul(std::span<const float> a, std::span<const float> b, std::span<float> out,
            const MatrixSizes& sizes, const Summation& how, std::span<const float> c) {
    multiply_matrices(a, b, out, sizes, how, c);
}
void matmul(std::span<const double> a, std::span<const double> b, std::span<double> out,
            const MatrixSizes& sizes, const Summation& how, std::span<const double> c) {
    multiply_matrices(a, b, out, sizes, how, c);
}

}  // namespace apscope
