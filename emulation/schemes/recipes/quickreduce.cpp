// quickreduce: two phases of symmetric integers in blocks of 32, in fp16 arithmetic throughout.
//
// Of 64 consecutive values, those with even indices are one block, and those with odd indices
// another block:
//
//      m  = the block's value of largest magnitude, of ties the negative one
//      d  = fl16(-m / L)                   the scale that is sent; L = 128, 32 or 8
//      e  = fl16(1 / fl16(d + epsilon))    epsilon_as=bound: fl16(1 / d), |d| >= epsilon
//      q  = clamp(fl16(x e), -L, L - 1)    to the nearest integer, ties to even
//      x' = fl16(q d)                      the decoded value
//
// The workers' x' are added to 0 in rank order, and every partial sum is rounded to fp16; the sum
// is then encoded in the same way.
//
// A tensor or, with a bucket, the array of the bucket is padded with zeros to a multiple of 64 W.
// For |m| below L / 65504, e would exceed the range of fp16 and is fp16's largest number instead,
// so x e is small, and the block's values are lost. With overflow=saturate, an operation on finite
// operands never gives an infinity (AMD's mode FP16_OVFL); with overflow=ieee, it may. The clamp
// turns a NaN into -L, because the hardware's maximum of a NaN and a number is the number. The
// hardware's reciprocal is approximate, whereas the one here is correctly rounded.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/fixed_shape_sum.h"
#include "core/named_formats.h"
#include "emulation/arithmetic/row_cast.h"
#include "emulation/schemes/codecs/bits.h"
#include "emulation/schemes/definition.h"
#include "emulation/schemes/shared/buckets.h"

namespace apscope::detail {

namespace {

constexpr std::size_t unit = 64, block = 32;

// A temporary row of fp16 numbers.
using Buffer = std::array<double, sum_block>;

// The number m of a block, which consists of every second number of a unit from x[0] on.
double largest_of(const double* x) {
    double most = -std::numeric_limits<double>::infinity(), least = -most;
    for (std::size_t i = 0; i < unit; i += 2) {  // comparisons with a NaN are false
        most = x[i] > most ? x[i] : most;
        least = x[i] < least ? x[i] : least;
    }
    if (most < least) return std::numeric_limits<double>::quiet_NaN();  // all are NaN
    const double m = std::abs(most) > std::abs(least) ? most : least;
    return m == 0.0 ? 0.0 : m;
}

class Codec {
public:
    Codec(int bits, double epsilon, bool bounds, bool from_bf16, Overflow overflow)
        : bits_(bits), limit_(std::ldexp(1.0, bits - 1)), bounds_(bounds),
          arithmetic_(parse_format("fp16"), {RoundingMode::ties_to_even, overflow}),
          caller_(parse_format(from_bf16 ? "bf16" : "fp16"), {}), from_bf16_(from_bf16) {
        in_fp16(&epsilon, 1, &epsilon_);
    }

    // m.codes gets the decoded values of complete units, including the zeros that complete the last
    // unit; they decode to NaN if their block is not finite.
    void encode(const RowPiece& p, Message& m) const {
        const BlocksAround around =
            blocks_around(p.step, RowReader::of(p.x), p.place.size, p.worker, unit);
        const std::span<const double> values = around.row.read(0, around.row.size);
        const std::size_t lead = around.lead, end = lead + p.x.size();
        m.prepare(values.size(), true, false);
        m.codes.resize((values.size() + unit - 1) / unit * unit);
        BitWriter wire;
        Buffer x, q;
        for (std::size_t begin = 0; begin < values.size(); begin += sum_block) {
            const std::size_t count = std::min(sum_block, values.size() - begin);
            caller_.round(values.data() + begin, 1.0, x.data(), count, {}, 0);
            if (from_bf16_) in_fp16(x.data(), count, x.data());
            const std::size_t filled = fill(x, count);
            code(x, filled, q);
            std::copy_n(x.data(), count, m.values.data() + begin);
            std::copy_n(x.data(), filled, m.codes.data() + begin);
            for (std::size_t i = 0; p.packs() && i < count; ++i)
                if (begin + i >= lead && begin + i < end) put(q[i], wire);
        }
        crop(m, lead, p.x.size());
        const std::size_t array = p.step.bucket != nullptr ? p.step.bucket->size() : p.place.size,
                          multiple = unit * static_cast<std::size_t>(p.step.workers),
                          padded = (array + multiple - 1) / multiple * multiple,
                          units = (array + unit - 1) / unit,
                          beyond = around.ends ? padded / unit - units : 0;
        const bool last = around.ends && p.place.first + p.x.size() == p.place.size;
        const std::size_t behind = last ? padded - array : 0;
        m.payload_bits = (p.x.size() + behind) * static_cast<std::uint64_t>(bits_);
        m.side_bits = (around.begun + beyond) * (unit / block) * 16;
        if (!p.packs()) return;
        for (std::size_t i = 0; i < behind; ++i) put(0.0, wire);
        m.payload = wire.take();
    }

    // Adds the messages of a piece, and encodes and decodes the sum.
    void reduce(const SentPieces& s, Row& sum) const {
        const std::size_t n = s.messages[0].values.size(), of_units = s.messages[0].codes.size(),
                          lead = lead_of(s.step, n, unit);
        sum.resize(of_units);
        Buffer total, q;
        for (std::size_t begin = 0; begin < of_units; begin += sum_block) {
            const std::size_t count = fill(total, 0, std::min(sum_block, of_units - begin));
            for (const Message& m : s.messages)
                arithmetic_.add(total.data(), m.codes.data() + begin, 1.0, total.data(), count, {},
                                0);
            code(total, count, q);
            if (from_bf16_) caller_.round(total.data(), 1.0, total.data(), count, {}, 0);
            std::copy_n(total.data(), count, sum.data() + begin);
        }
        if (lead != 0) std::copy_n(sum.begin() + static_cast<std::ptrdiff_t>(lead), n, sum.begin());
        sum.resize(n);
    }

private:
    void put(double integer, BitWriter& wire) const {
        wire.put(static_cast<std::uint64_t>(integer + limit_), bits_);
    }
    void in_fp16(const double* x, std::size_t count, double* rounded) const {
        arithmetic_.round(x, 1.0, rounded, count, {}, 0);
    }

    // Computes d and e of each block of the units in x.
    void scale(const Buffer& x, std::size_t blocks, double* d, double* e) const {
        for (std::size_t b = 0; b < blocks; ++b)
            d[b] = largest_of(x.data() + b / 2 * unit + b % 2) * (-1.0 / limit_);
        in_fp16(d, blocks, d);
        for (std::size_t b = 0; b < blocks; ++b) {
            if (bounds_)
                e[b] = d[b] = std::abs(d[b]) < epsilon_ ? std::copysign(epsilon_, d[b]) : d[b];
            else e[b] = d[b] + epsilon_;
        }
        in_fp16(e, blocks, e);
        // fp16 numbers have 11 significant bits, so the fp64 quotient lies in the middle of two
        // fp16 numbers only if the exact quotient does.
        for (std::size_t b = 0; b < blocks; ++b) e[b] = 1.0 / e[b];
        in_fp16(e, blocks, e);
    }

    // Writes zeros from element `first` to the end of the last unit of `count` elements, and
    // returns the index of this end.
    static std::size_t fill(Buffer& x, std::size_t first, std::size_t count) {
        const std::size_t filled = (count + unit - 1) / unit * unit;
        std::fill(x.begin() + static_cast<std::ptrdiff_t>(first),
                  x.begin() + static_cast<std::ptrdiff_t>(filled), 0.0);
        return filled;
    }
    static std::size_t fill(Buffer& x, std::size_t count) { return fill(x, count, count); }

    // Computes the codes q of the fp16 numbers x of complete units, and replaces x by the decoded
    // values.
    void code(Buffer& x, std::size_t count, Buffer& q) const {
        std::array<double, sum_block / block> d, e;
        scale(x, count / block, d.data(), e.data());
        const auto of = [](std::size_t i) { return i / unit * 2 + i % 2; };
        for (std::size_t i = 0; i < count; ++i) q[i] = x[i] * e[of(i)];
        in_fp16(q.data(), count, q.data());
        for (std::size_t i = 0; i < count; ++i) {
            double integer = q[i] > -limit_ ? q[i] : -limit_;
            integer = integer < limit_ - 1.0 ? integer : limit_ - 1.0;
            q[i] = std::nearbyint(integer) + 0.0;  // adding 0 turns -0 into 0
            x[i] = q[i] * d[of(i)];
        }
        in_fp16(x.data(), count, x.data());
    }

    int bits_;
    double limit_, epsilon_ = 0.0;
    bool bounds_;
    RowCast arithmetic_, caller_;
    bool from_bf16_;
};

SchemeParts parts_of(const SchemeArguments& arguments) {
    constexpr std::array<std::string_view, 3> codecs{"int8", "int6", "int4"};
    constexpr std::array<std::string_view, 2> uses{"add", "bound"}, inputs{"fp16", "bf16"},
        overflows{"saturate", "ieee"};
    const std::string_view name = arguments.choice("codec", codecs);
    const int bits = name.back() - '0';
    const bool bounds = arguments.choice("epsilon_as", uses) == "bound",
               from_bf16 = arguments.choice("input", inputs) == "bf16";
    const Overflow overflow =
        arguments.choice("overflow", overflows) == "ieee" ? Overflow::ieee : Overflow::propagate;
    const Codec codec(bits, arguments.number("epsilon", 0.0, 1.0), bounds, from_bf16, overflow);
    const std::size_t bucket = bucket_of(arguments);
    return {.grid = std::string(name),
            .topology = std::string(reductions::two_phase),
            .transport = {.code_bits = bits, .side_in_parts = true},
            .run = bucket != 0 ? whole_row : unit,
            .bucket = bucket,
            .encoding = {.encode = [codec](const RowPiece& p, Message& m) { codec.encode(p, m); },
                         .reduce = [codec](const SentPieces& s, Row& sum) { codec.reduce(s, sum); },
                         .sees_special = true}};
}

}  // namespace

SchemeDefinition quickreduce_definition() {
    return {
        .class_name = "QuickReduce",
        .summary = "symmetric integers in interleaved blocks of 32, in fp16 arithmetic, in two "
                   "phases",
        .source = "QuickReduce (mk1-project) as in vLLM, csrc/quickreduce",
        .needs = "gradients",
        .keys = {{"codec", "int8", "int8, int6 or int4; it may stand alone: quickreduce:int4"},
                 {"epsilon", "6e-8", "rounded to fp16 (6e-8: 2^-24); from 0 to 1"},
                 {"epsilon_as", "add",
                  "add: to the scale before its reciprocal, as in vLLM; bound: the scale's least "
                  "magnitude"},
                 {"input", "fp16",
                  "what gradients are cast to, and the result's dtype: fp16, bf16"},
                 {"overflow", "saturate",
                  "of fp16 arithmetic on finite numbers: saturate (mode FP16_OVFL), or ieee: "
                  "infinities"},
                 bucket_key()},
        .grid_key = "codec",
        .build = parts_of};
}

}  // namespace apscope::detail
