// Casts of arrays and views, codes, block formats, statistics, against the rule for one number.
#include <algorithm>
#include <numeric>
#include <optional>

#include "calls.h"

namespace generated {
namespace {

using namespace apscope;

Quantizer quantizer(Draw& draw) {
    const FloatFormat format = draw.format();
    return Quantizer(format, draw.one_in(3) ? Projection{} : draw.projection(), draw.word(),
                     draw.threads());
}

// The same Quantizer on one thread.
Quantizer alone(const Quantizer& q) { return Quantizer(q.format(), q.projection(), q.seed()); }

std::uint64_t first_element(Draw& draw) {
    return draw.one_in(2) ? 0 : draw.integer<std::uint64_t>(0, 1000);
}

// Compares some elements of `out` with one(i).
template <class Real, class One>
void compare_some(Draw& draw, std::span<const Real> out, const One& one, const char* what) {
    for (int tries = 0; tries < 30 && !out.empty(); ++tries) {
        const std::size_t i = draw.below(out.size());
        require(same_number(out[i], one(i)), std::string(what) + ", element " + std::to_string(i) +
                                                 " of " + std::to_string(out.size()));
    }
}

// Lengths that differ, and arrays that overlap in part, are refused and left as they are.
template <class Real, class Call>
void refuse_arrays(Draw& draw, const std::vector<Real>& x, const Call& call) {
    if (x.size() < 2) return;
    std::vector<Real> other(x.size() + 1 + draw.below(3)), both = x;
    require(refused([&] { call(std::span<const Real>(x), std::span<Real>(other)); }),
            "lengths that differ were taken");
    const std::size_t part = 1 + draw.below(x.size() - 1), shift = 1 + draw.below(x.size() - part);
    if (shift >= part) return;
    require(refused([&] {
                call(std::span<const Real>(both).first(part), std::span(both).subspan(shift, part));
            }) &&
                same(both, x),
            "an overlap in part was taken");
}

template <class Real>
void cast(Draw& draw) {
    const Quantizer q = quantizer(draw);
    const std::vector<Real> x = draw.numbers<Real>(draw.length());
    const std::uint64_t first = first_element(draw);
    std::vector<Real> out(x.size(), Real{7}), again = x;
    const bool scaled = draw.one_in(3);
    const double scale = draw.one_in(20) ? draw.number<double>()
                                         : std::ldexp(draw.between(1, 999), draw.between(-40, 40));
    const auto round = [&](const Quantizer& by, std::span<const Real> in, std::span<Real> to) {
        scaled ? by.scaled(scale, in, to, first) : by(in, to, first);
    };
    round(q, x, out);
    round(alone(q), again, again);
    require(same(out, again), "other bits on one thread in place");
    if (scaled) {
        round(q, std::span<const Real>(x).first(x.size() / 2),
              std::span(again).first(x.size() / 2));
        require(same(out, again), "other bits of a part");
    } else {
        compare_some<Real>(draw, out, [&](std::size_t i) { return q(x[i], first + i); }, "a cast");
    }
    refuse_arrays<Real>(draw, x, [&](auto in, auto to) { round(q, in, to); });
}

void casts(Draw& draw) { draw.one_in(2) ? cast<float>(draw) : cast<double>(draw); }

void exact_numbers(Draw& draw) {
    Quantizer given = quantizer(draw);
    const Quantizer q = std::move(given);
    require(given.format() == q.format() && given.projection() == q.projection() &&
                given.seed() == q.seed() && given.threads() == q.threads(),
            "a move changed a Quantizer");
    ExactNumber x;
    x.high = draw.word() >> draw.below(64);
    x.low = draw.one_in(3) ? draw.word() : draw.below(9);
    x.exponent = draw.integer<long>(-200, 200);
    x.negative = draw.one_in(2);
    x.inexact = draw.one_in(3);
    if (draw.one_in(2)) {
        x = {.low = draw.below(1u << 20), .exponent = draw.between(-60, 60)};
        const double value = std::ldexp(static_cast<double>(x.low), static_cast<int>(x.exponent));
        require(same_number(q(x, 5), q(value, 5)), "an exact number and its double differ");
    } else {
        (void)q(x, draw.word());
    }
}

// Views ---------------------------------------------------------------------------------------

std::size_t elements_of(const std::vector<std::size_t>& shape) {
    return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

// Strides over a shape, and the places that they reach: an array of `size` elements, of which
// element (0, 0, ...) is number `first`.
struct Layout {
    std::vector<std::ptrdiff_t> strides;
    std::size_t size = 0, first = 0;

    Layout(Draw& draw, const std::vector<std::size_t>& shape) : strides(shape.size()) {
        std::vector<std::size_t> axes(shape.size());
        std::iota(axes.begin(), axes.end(), std::size_t{0});
        const bool plain = draw.one_in(3);
        std::ptrdiff_t next = 1, low = 0, high = 0;
        for (std::size_t done = 0; done < shape.size(); ++done) {
            std::size_t& place = axes[plain ? axes.size() - 1 : draw.below(axes.size())];
            const std::size_t axis = place;
            axes.erase(axes.begin() + (&place - axes.data()));
            std::ptrdiff_t stride = next;
            if (!plain) {
                if (draw.one_in(6)) stride += draw.between(1, 3);
                if (draw.one_in(6)) stride = draw.between(0, 1);
                if (draw.one_in(4)) stride = -stride;
            }
            strides[axis] = stride;
            const auto length = static_cast<std::ptrdiff_t>(shape[axis]);
            next = std::max<std::ptrdiff_t>(next,
                                            std::abs(stride) * std::max<std::ptrdiff_t>(length, 1));
            (stride < 0 ? low : high) += stride * std::max<std::ptrdiff_t>(length - 1, 0);
        }
        if (elements_of(shape) != 0) size = static_cast<std::size_t>(high - low + 1);
        first = static_cast<std::size_t>(-low);
    }
    // The place of element i in C order.
    std::size_t at(std::size_t i, const std::vector<std::size_t>& shape) const {
        auto place = static_cast<std::ptrdiff_t>(first);
        for (std::size_t axis = shape.size(); axis-- > 0; i /= shape[axis])
            place += static_cast<std::ptrdiff_t>(i % shape[axis]) * strides[axis];
        return static_cast<std::size_t>(place);
    }
};

template <class Real>
StridedView<Real> view(std::vector<std::remove_const_t<Real>>& array, std::size_t from,
                       const Layout& layout, const std::vector<std::size_t>& shape) {
    return {array.empty() ? nullptr : array.data() + from + layout.first, shape, layout.strides};
}

template <class Real>
void cast_views(Draw& draw) {
    const Quantizer q = quantizer(draw);
    const std::vector<std::size_t> shape = draw.shape();
    const std::size_t count = elements_of(shape);
    if (count > 100'000) return;
    const Layout from(draw, shape), to(draw, shape);
    if (from.size + to.size > 1'000'000) return;
    // One array for both sides, or one for each, of exactly the elements that are reached.
    const bool shared = draw.one_in(2) && count != 0;
    const std::size_t shift = shared ? draw.below(9) : 0;
    std::vector<Real> in =
        draw.numbers<Real>(shared ? std::max(from.size, to.size + shift) : from.size);
    std::vector<Real> separate = draw.numbers<Real>(shared ? 0 : to.size);
    std::vector<Real>& out = shared ? in : separate;
    std::vector<Real> expected = out;
    const std::vector<Real> before = in;
    for (std::size_t i = 0; i < count; ++i)
        expected[shift + to.at(i, shape)] = q(before[from.at(i, shape)], i);
    q(view<const Real>(in, 0, from, shape), view<Real>(out, shift, to, shape));
    require(same(out, expected), shared ? "a view over its own input" : "a view");
}

template <class Real>
void refuse_views(Draw& draw) {
    const Quantizer q = quantizer(draw);
    std::vector<Real> x = draw.numbers<Real>(64), y = x;
    std::vector<std::size_t> shape = {4, 4}, other = {4, 2, 2};
    std::vector<std::ptrdiff_t> strides = {4, 1};
    const auto round = [&](const std::vector<std::size_t>& in, const std::vector<std::size_t>& out,
                           Real* data) {
        q(StridedView<const Real>{x.data(), in, strides}, StridedView<Real>{data, out, strides});
    };
    require(refused([&] { round(shape, other, y.data()); }), "shapes that differ");
    require(refused([&] { round(other, other, y.data()); }), "strides of another number of axes");
    require(refused([&] { round(shape, shape, nullptr); }), "axes without data");
    const auto impossible = draw.impossible_shape();
    strides.assign(impossible.size(), draw.integer<std::ptrdiff_t>(-3, 3));
    const bool empty = std::count(impossible.begin(), impossible.end(), 0u) != 0;
    const bool was_refused = refused([&] { round(impossible, impossible, y.data()); });
    require(empty || was_refused, "a view of more elements than any array");
    require(same(x, y), "a refused view was written");
}

void views(Draw& draw) { draw.one_in(2) ? cast_views<float>(draw) : cast_views<double>(draw); }
void wrong_views(Draw& draw) {
    draw.one_in(2) ? refuse_views<float>(draw) : refuse_views<double>(draw);
}

// Codes ---------------------------------------------------------------------------------------

template <class Real, class Code>
void code(Draw& draw) {
    const Quantizer q = quantizer(draw);
    const std::vector<Real> x = draw.numbers<Real>(draw.length());
    const std::uint64_t first = first_element(draw);
    std::optional<std::uint64_t> nan_code;
    if (draw.one_in(2)) nan_code = draw.integer<std::uint64_t>(0, 20);
    std::vector<Code> codes(x.size());
    q.encode(x, codes, nan_code, first);
    compare_some<Code>(
        draw, codes,
        [&](std::size_t i) {
            return static_cast<Code>(q.encode(static_cast<double>(x[i]), nan_code, first + i));
        },
        "a code");
    if (draw.one_in(3))
        for (Code& wrong : codes) wrong = static_cast<Code>(draw.word());
    std::vector<Real> values(codes.size());
    q.decode(codes, values);
    compare_some<Real>(
        draw, values, [&](std::size_t i) { return static_cast<Real>(q.decode(codes[i])); },
        "a value");
    std::vector<Real> longer(codes.size() + 1);
    require(refused([&] { q.decode(codes, longer); }) &&
                refused([&] { q.encode(longer, codes, nan_code, first); }),
            "lengths of codes and values that differ were taken");
}

void codes(Draw& draw) {
    switch (draw.below(7)) {
        case 0: return code<float, std::uint8_t>(draw);
        case 1: return code<float, std::uint16_t>(draw);
        case 2: return code<float, std::uint32_t>(draw);
        case 3: return code<double, std::uint8_t>(draw);
        case 4: return code<double, std::uint16_t>(draw);
        case 5: return code<double, std::uint32_t>(draw);
        default: return code<double, std::uint64_t>(draw);
    }
}

void packing(Draw& draw) {
    const int bits = draw.integer(1, 8);
    const std::size_t lines = draw.integer<std::size_t>(0, 5), length = draw.below(40);
    std::vector<std::uint8_t> codes(lines < 100 && !draw.one_in(9) ? lines * length
                                                                   : draw.length());
    for (std::uint8_t& code : codes)
        code = static_cast<std::uint8_t>(draw.one_in(2000) ? draw.word()
                                                           : draw.word() % (1u << (bits & 7)));
    if (draw.one_in(2)) {
        const std::vector<std::uint8_t> bytes = pack(codes, bits, lines);
        require(unpack(bytes, bits, lines == 0 ? 0 : codes.size() / lines, lines) == codes,
                "unpack(pack(codes)) are other codes");
    } else {
        const std::size_t count = draw.integer<std::size_t>(0, 40);
        const std::vector<std::uint8_t> unpacked = unpack(codes, bits, count, lines);
        require(unpacked.size() == count * lines, "a wrong number of unpacked codes");
    }
}

// Block formats -------------------------------------------------------------------------------

template <class Real>
void blocks(Draw& draw) {
    const BlockFormat format = draw.block_format();
    const Projection projection = draw.one_in(2) ? saturating : draw.projection();
    const std::uint64_t seed = draw.word();
    const BlockQuantizer q(format, projection, seed, draw.threads());
    BlockQuantizer given(format, projection, seed);
    const BlockQuantizer one = std::move(given);
    require(given.format() == one.format() && given.projection() == one.projection(),
            "a move changed a BlockQuantizer");
    std::vector<std::size_t> shape = draw.shape();
    std::size_t count = elements_of(shape);
    if (shape.empty()) count = draw.length();
    if (count > 200'000) return;
    const int axis = draw.integer(-1, shape.empty() ? 0 : static_cast<int>(shape.size()) - 1);
    if (draw.one_in(15)) shape = draw.impossible_shape();
    std::vector<Real> x = draw.numbers<Real>(draw.one_in(20) ? count + 1 : count),
                      out(x.size(), Real{7});
    q(x, out, shape, axis);
    if constexpr (std::is_same_v<Real, float>) {
        BlockCodes encoded = q.encode(x, shape, axis);
        std::vector<float> decoded(x.size());
        one.decode(encoded, decoded, shape, axis);
        require(same(decoded, out), "decoded blocks are not the rounded ones");
        std::vector<std::uint8_t>& codes = draw.one_in(2) ? encoded.codes : encoded.scales;
        for (std::uint8_t& wrong : codes) wrong = static_cast<std::uint8_t>(draw.word());
        if (draw.one_in(3)) encoded.tensor_scale = draw.number<float>();
        if (draw.one_in(2)) codes.resize(draw.below(codes.size() + 3));
        (void)refused([&] { q.decode(encoded, decoded, shape, axis); });
    }
    refuse_arrays<Real>(draw, x, [&](auto in, auto to) { q(in, to); });
    one(x, x, shape, axis);
    require(same(x, out), "other bits on one thread in place");
}

void block_casts(Draw& draw) { draw.one_in(3) ? blocks<double>(draw) : blocks<float>(draw); }

void statistics(Draw& draw) {
    const Quantizer q = quantizer(draw);
    const std::vector<float> x = draw.numbers<float>(draw.length());
    std::vector<float> out(draw.one_in(3) ? 0 : x.size()), rounded(x.size());
    const CastStatistics found = cast_statistics(x, q, out);
    q(x, rounded);
    require(out.empty() || same(out, rounded), "statistics with other rounded numbers");
    require(found.count == static_cast<std::int64_t>(x.size()) && found.counted <= found.count &&
                found.underflow <= found.nonzero && found.nonzero <= found.count &&
                found.nan + found.infinite + found.counted + found.overflow == found.count,
            "counts of a cast that do not add up");
    const std::vector<double> wide(x.begin(), x.end());
    const CastStatistics same_numbers = cast_statistics(wide, q);
    require(std::memcmp(&found, &same_numbers, sizeof found) == 0,
            "other statistics of the same numbers as doubles");
    std::vector<double> others = draw.numbers<double>(draw.below(50));
    (void)refused([&] { (void)cast_statistics(others, q); });
    if (!x.empty()) {
        std::vector<float> both = x;
        require(refused([&] { (void)cast_statistics(both, q, both); }),
                "statistics over their own input");
    }
}

}  // namespace

const std::vector<Entry> arrays = {{"Quantizer", casts},
                                   {"Quantizer, exact", exact_numbers},
                                   {"Quantizer, views", views},
                                   {"Quantizer, wrong views", wrong_views},
                                   {"encode and decode", codes},
                                   {"pack and unpack", packing},
                                   {"BlockQuantizer", block_casts},
                                   {"cast_statistics", statistics}};

}  // namespace generated
