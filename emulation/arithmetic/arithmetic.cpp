#include "emulation/arithmetic/arithmetic.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "core/float_environment.h"
#include "emulation/arithmetic/arithmetic_kernels.h"
#include "emulation/arithmetic/register_arithmetic.h"
#include "emulation/arithmetic/row_cast.h"
#include "emulation/draws/random_words.h"
#include "emulation/machine/parallel.h"

namespace apscope::detail {

namespace {

constexpr std::array<std::string_view, operation_count> names = {"add",    "subtract", "multiply",
                                                                 "divide", "sqrt",     "fma"};

// Calls f.template operator()<Op>() with the run-time operation as the compile-time Op.
template <class F>
void dispatch_operation(Operation operation, F&& f) {
    switch (operation) {
        case Operation::add: return f.template operator()<Operation::add>();
        case Operation::subtract: return f.template operator()<Operation::subtract>();
        case Operation::multiply: return f.template operator()<Operation::multiply>();
        case Operation::divide: return f.template operator()<Operation::divide>();
        case Operation::sqrt: return f.template operator()<Operation::sqrt>();
        case Operation::fma: return f.template operator()<Operation::fma>();
    }
}

template <class Real>
void check_operand(std::span<const Real> operand, std::size_t count, const char* what) {
    if (operand.size() != count && operand.size() != 1) {
        throw std::invalid_argument("operand " + std::string(what) + " holds " +
                                    std::to_string(operand.size()) + " elements, the output " +
                                    std::to_string(count) +
                                    "; they must agree, or the operand must be one number");
    }
}

// Writes elements first .. first + count - 1 of an operand to a row. An operand of one number fills
// the row with this number.
template <class Real>
void load(std::span<const Real> operand, std::size_t first, std::size_t count, double* row) {
    if (operand.size() == 1) {
        std::fill_n(row, count, static_cast<double>(operand[0]));
    } else {
        std::copy_n(operand.data() + first, count, row);
    }
}

}  // namespace

std::string_view to_string(Operation operation) {
    return names[static_cast<std::size_t>(operation)];
}

Operation parse_operation(std::string_view name) {
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (names[i] == name) return static_cast<Operation>(i);
    }
    throw std::invalid_argument("unknown operation '" + std::string(name) +
                                "'; use add, subtract, multiply, divide, sqrt or fma");
}

int operand_count(Operation operation) {
    return operation == Operation::sqrt ? 1 : operation == Operation::fma ? 3 : 2;
}

Rounder make_rounder(const FloatFormat& format, const Projection& projection, bool narrow) {
    // Limits may be fp64 subnormals, which the caller's settings may flush.
    const FloatEnvironment environment;
    validate(projection, format);
    require_counted(projection.rounding, "arithmetic");
    Rounder rounder{make_cast<double>(format, projection), narrow, 0};
    if (projection.flushes_input()) rounder.operand_floor = format.smallest_normal();
    rounder.cast.input_floor = 0;  // the cast's inputs are exact results, which are not flushed
    return rounder;
}

ArithmeticPath Rounder::path(Operation operation) const {
    if (!narrow) return ArithmeticPath::wide;
    if (operation == Operation::multiply) return ArithmeticPath::exact;
    return odd_suffices(cast) ? ArithmeticPath::odd : ArithmeticPath::wide;
}

void Rounder::round(double* row, std::size_t count, const RandomStream& stream,
                    std::uint64_t first) const {
    if (operand_floor != 0)
        std::transform(row, row + count, row,
                       [&](double x) { return flush_operand(x, operand_floor); });
    draw_and_round(row, count, cast, stream, first);
}

void Rounder::apply(Operation operation, const double* a, const double* b, const double* c,
                    double* row, std::size_t count, const RandomStream& stream,
                    std::uint64_t first) const {
    dispatch_operation(operation, [&]<Operation Op>() {
        if (path(Op) == ArithmeticPath::wide) {
            for_random_words(is_stochastic(cast.rounding), stream, first, count,
                             [&](std::size_t begin, std::size_t n, const std::uint64_t* words) {
                                 dispatch(cast.rounding, [&]<RoundingMode M>() {
                                     operate_wide_row<Op, M>(a + begin, b + begin, c + begin,
                                                             row + begin, n, cast, operand_floor,
                                                             words);
                                 });
                             });
            return;
        }
        const bool down = cast.rounding == RoundingMode::toward_negative;
        if (operand_floor != 0) {
            simd::run<OperateToOdd<Op, true>>(a, b, c, row, count, down, operand_floor);
        } else {
            simd::run<OperateToOdd<Op, false>>(a, b, c, row, count, down, 0.0);
        }
        draw_and_round(row, count, cast, stream, first);
    });
}

namespace {

constexpr std::size_t piece = std::size_t{1} << 14, tile = 512;

void operate_in_registers(const RegisterOperation& operation, int operands,
                          std::span<const float> a, std::span<const float> b,
                          std::span<const float> c, std::span<float> out, int threads) {
    // An operand of one number may be an element of the output, so it is read before the output is
    // written.
    float rows[3][tile];
    const float* ones[3] = {};
    const std::span<const float> all[3] = {a, b, c};
    for (int i = 0; i < operands; ++i) {
        if (all[i].size() != 1) continue;
        std::fill_n(rows[i], tile, all[i][0]);
        ones[i] = rows[i];
    }
    parallel_pieces((out.size() + piece - 1) / piece, threads, [&](std::size_t p) {
        const std::size_t end = std::min((p + 1) * piece, out.size());
        for (std::size_t i = p * piece; i < end; i += tile) {
            const auto from = [&](int k) {
                return k >= operands || ones[k] != nullptr ? ones[k] : all[k].data() + i;
            };
            operation.run(from(0), from(1), from(2), out.data() + i, std::min(tile, end - i));
        }
    });
}

template <class Real>
void operate_array(Operation operation, std::span<const Real> a, std::span<const Real> b,
                   std::span<const Real> c, std::span<Real> out, const FloatFormat& format,
                   const Projection& projection, std::uint64_t seed, int threads, bool registers) {
    constexpr bool narrow = std::is_same_v<Real, float>;
    if constexpr (narrow) require_fp32(format, "arithmetic on fp32 arrays");
    const int operands = operand_count(operation);
    check_operand(a, out.size(), "a");
    if (operands > 1) check_operand(b, out.size(), "b");
    if (operands > 2) check_operand(c, out.size(), "c");
    const Rounder rounder = make_rounder(format, projection, narrow);
    if constexpr (narrow) {
        const auto in_registers =
            registers ? RegisterOperation::make(operation, format, projection) : std::nullopt;
        if (in_registers)
            return operate_in_registers(*in_registers, operands, a, b, c, out, threads);
    }
    const RandomStream stream = array_stream(seed, projection.random_bits);
    parallel_pieces((out.size() + piece - 1) / piece, threads, [&](std::size_t p) {
        double rows[3][tile] = {};
        const std::size_t end = std::min((p + 1) * piece, out.size());
        for (std::size_t i = p * piece; i < end; i += tile) {
            const std::size_t count = std::min(tile, end - i);
            load(a, i, count, rows[0]);
            if (operands > 1) load(b, i, count, rows[1]);
            if (operands > 2) load(c, i, count, rows[2]);
            rounder.apply(operation, rows[0], rows[1], rows[2], rows[0], count, stream, i);
            std::transform(rows[0], rows[0] + count, out.data() + i,
                           [](double x) { return static_cast<Real>(x); });
        }
    });
}

}  // namespace

void arithmetic(Operation operation, std::span<const float> a, std::span<const float> b,
                std::span<const float> c, std::span<float> out, const FloatFormat& format,
                const Projection& projection, std::uint64_t seed, int threads, bool registers) {
    operate_array(operation, a, b, c, out, format, projection, seed, threads, registers);
}
void arithmetic(Operation operation, std::span<const double> a, std::span<const double> b,
                std::span<const double> c, std::span<double> out, const FloatFormat& format,
                const Projection& projection, std::uint64_t seed, int threads) {
    operate_array(operation, a, b, c, out, format, projection, seed, threads, false);
}

}  // namespace apscope::detail
