#include <bit>
#include <cstring>
#include <vector>

#include "core/named_formats.h"
#include "emulation/cast/cast_plan.h"
#include "emulation/cast/quantize.h"
#include "tests/fuzz/format_bytes.h"
#include "tests/fuzz/targets.h"

namespace apscope::detail::fuzz {
namespace {

template <class Real>
using Pattern = std::conditional_t<sizeof(Real) == 4, std::uint32_t, std::uint64_t>;

// The planned cast gives the rule's bits; the codes of its results are codes of the format and
// decode to the results.
template <class Real>
void casts_alike(const FloatFormat& f, const Projection& p, Bytes bytes, std::uint64_t seed) {
    using Bits = Pattern<Real>;
    constexpr std::size_t most = 300;
    std::vector<Real> in(std::min(bytes.size() / sizeof(Real), most));
    if (in.empty()) return;
    std::memcpy(in.data(), bytes.data(), in.size() * sizeof(Real));
    const auto plan = make_plan<Real>(f, p);
    const std::string what = f.name() + " " + std::string(to_string(p.rounding)) + ", path " +
                             std::string(to_string(plan.path));
    require(!plan.how().empty() && !plan.reason().empty(), what + " says nothing about itself");
    RandomSource random;
    random.seed = seed;
    random.first_element = seed % 7;
    std::vector<Real> planned(in.size()), by_rule(in.size()), again(in.size());
    quantize(std::span<const Real>(in), std::span(planned), f, p, random);
    quantize_by_rule(std::span<const Real>(in), std::span(by_rule), f, p, random);
    for (std::size_t i = 0; i < in.size(); ++i)
        require(std::bit_cast<Bits>(planned[i]) == std::bit_cast<Bits>(by_rule[i]),
                what + ": another result than the rule's for pattern " +
                    std::to_string(std::bit_cast<Bits>(in[i])));
    std::vector<Bits> codes(in.size());
    if (!taken([&] {
            encode(std::span<const Real>(in), std::span(codes), f, p, std::nullopt, random);
        }))
        return;
    decode(std::span<const Bits>(codes), std::span(again), f, p.keep_payload);
    for (std::size_t i = 0; i < in.size(); ++i)
        require(planned[i] == again[i] || (planned[i] != planned[i] && again[i] != again[i]),
                what + ": a code of another value than quantize's");
}

}  // namespace

void plans(Bytes input) {
    ByteReader bytes(input);
    const std::string_view name = bytes.line();
    FloatFormat f;
    const bool named = taken([&] { f = parse_format(name); });
    if (!named && !taken([&] { validate(f = format_of(bytes)); })) return;
    const Projection p = projection_of(bytes);
    if (!taken([&] { validate(p, f); })) return;
    const auto seed = bytes.take<std::uint16_t>();
    if (f.fits_fp32()) casts_alike<float>(f, p, bytes.rest(), seed);
    casts_alike<double>(f, p, bytes.rest(), seed);
}

}  // namespace apscope::detail::fuzz
