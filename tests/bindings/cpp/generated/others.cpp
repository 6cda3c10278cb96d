// The headers for xtensor and Boost.Multiprecision.
#include <apscope/multiprecision.h>
#include <apscope/xtensor.h>

#include <boost/multiprecision/cpp_bin_float.hpp>

#include "calls.h"

namespace generated {
namespace {

using namespace apscope;

Quantizer quantizer(Draw& draw) {
    const FloatFormat format = draw.format();
    return Quantizer(format, draw.one_in(2) ? Projection{} : draw.projection(), draw.word());
}

template <class Real>
xt::xarray<Real> array_of(Draw& draw) {
    std::vector<std::size_t> shape = draw.shape();
    std::size_t count = 1;
    for (std::size_t& length : shape) count *= length = std::min<std::size_t>(length, 12);
    const std::vector<Real> numbers = draw.numbers<Real>(count);
    xt::xarray<Real> array = xt::xarray<Real>::from_shape(shape);
    std::copy(numbers.begin(), numbers.end(), array.begin());
    return array;
}

template <class Real>
void xtensor_casts(Draw& draw) {
    const Quantizer q = quantizer(draw);
    const xt::xarray<Real> x = array_of<Real>(draw);
    const int axis = draw.integer(-2, 2);
    const auto rounded = quantize(xt::transpose(x) * Real{2}, q);
    require(rounded.size() == x.size() && rounded.dimension() == x.dimension(),
            "a rounded expression of another shape");
    if (draw.one_in(2)) {
        const auto codes = encode<std::uint32_t>(x, q, draw.integer<std::uint64_t>(0, 20));
        const Quantizer nearest(q.format(), {.keep_payload = q.projection().keep_payload});
        require(same(decode<Real>(codes, q), quantize(decode<Real>(codes, nearest), nearest)),
                "decoded numbers that are not of the format");
    }
    (void)refused([&] { (void)cast_statistics(x, q); });
    (void)refused([&] {
        const CastStatisticsArrays lines = cast_statistics(x, q, axis);
        require(lines.count.dimension() + 1 == x.dimension(), "statistics of other lines");
    });
    const BlockQuantizer blocks(draw.block_format());
    require(quantize(x, blocks, axis).size() == x.size(), "blocks of another shape");
}

void xtensor(Draw& draw) {
    draw.one_in(2) ? xtensor_casts<float>(draw) : xtensor_casts<double>(draw);
}

void xtensor_sums(Draw& draw) {
    const xt::xarray<float> x = array_of<float>(draw);
    const std::ptrdiff_t axis = draw.integer<std::ptrdiff_t>(-1, 1);
    const FloatFormat format = draw.format();
    const xt::xarray<double> sum = allreduce(x, format, axis, {.topology = draw.topology()});
    require(sum.dimension() + 1 == x.dimension(), "a sum of another shape");
}

void boosts(Draw& draw) {
    using namespace boost::multiprecision;
    const Quantizer q = quantizer(draw);
    const auto integer = [&] {
        const cpp_int value = cpp_int(draw.word()) << draw.below(draw.one_in(5) ? 3000 : 20);
        return draw.one_in(2) ? cpp_int(-value) : value;
    };
    const cpp_int numerator = integer(), denominator = integer();
    (void)apscope::round(numerator, q, draw.word());
    if (denominator != 0) {
        const cpp_rational value(numerator, abs(denominator));
        (void)apscope::round(value, q);
        (void)apscope::round(cpp_bin_float_100(numerator) / cpp_bin_float_100(denominator), q);
    }
    (void)apscope::round(cpp_bin_float_100(draw.number<double>()), q);
    const double x = draw.number<double>();
    if (std::isfinite(x) && x != 0)
        require(same_number(apscope::round(cpp_rational(x), q, 3), q(x, 3)),
                "a rational number and its double differ");
    (void)exact_value(q.format(), draw.integer<std::uint64_t>(0, 200));
}

}  // namespace

const std::vector<Entry> others = {
    {"xtensor", xtensor}, {"xtensor, allreduce", xtensor_sums}, {"multiprecision", boosts}};

}  // namespace generated
