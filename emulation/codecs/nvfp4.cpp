#include "emulation/codecs/nvfp4.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/codec.h"
#include "core/named_formats.h"
#include "core/rounding.h"
#include "emulation/codecs/bits.h"

namespace apscope {

namespace {

constexpr std::size_t block = 16;
constexpr float greatest = std::numeric_limits<float>::max();

struct Tried {
    float scale = 0.0f;  // d
    float quotients[block] = {}, values[block] = {};
    double squared_error = 0.0;
};

}  // namespace

float Nvfp4::tensor_scale(double amax) const {
    if (amax == 0.0) return 1.0f;
    return std::min((four_over_six ? 256.0f : 448.0f) * 6.0f / static_cast<float>(amax), greatest);
}

Message Nvfp4::encode(std::span<const double> x, float tensor_scale, const RandomStream& stream, bool packs) const {
    const FloatFormat e2m1 = parse_format("e2m1fn"), e4m3 = parse_format("e4m3fn");
    const Cast<float> element = make_cast<float>(e2m1, projection);
    const Cast<float> scale = make_cast<float>(e4m3, {RoundingMode::ties_to_even, Overflow::saturate});
    const Codec codec = make_codec<float>(e2m1);
    const bool drawn = is_stochastic(projection.rounding);
    const float inverse = 1.0f / tensor_scale;

    const auto attempt = [&](std::size_t begin, std::size_t count, float wanted) {
        Tried t;
        t.scale = round_one<float>(wanted, scale, RoundingMode::ties_to_even, 0);
        const float enlarge = t.scale == 0.0f ? 0.0f : std::min(1.0f / (t.scale * inverse), greatest);
        for (std::size_t i = 0; i < count; ++i) {
            const auto v = static_cast<float>(x[begin + i]);
            const float clipped = std::clamp(v * enlarge, -6.0f, 6.0f);
            const std::uint64_t random = drawn ? stream.at(begin + i) : 0;
            t.quotients[i] = round_one<float>(clipped, element, projection.rounding, random);
            t.values[i] = t.scale == 0.0f ? std::copysign(0.0f, v) : t.quotients[i] * t.scale / tensor_scale;
            const double error = static_cast<double>(t.values[i]) - static_cast<double>(v);
            t.squared_error += error * error;
        }
        return t;
    };
    Message m;
    BitWriter bits;
    for (std::size_t begin = 0; begin < x.size(); begin += block) {
        const std::size_t count = std::min(block, x.size() - begin);
        float amax = 0.0f;
        for (std::size_t i = 0; i < count; ++i) amax = std::max(amax, std::abs(static_cast<float>(x[begin + i])));
        Tried best;
        if (four_over_six) {
            const float six = amax / 6.0f * tensor_scale;
            best = attempt(begin, count, six);
            const Tried four = attempt(begin, count, six * 1.5f);
            if (four.squared_error < best.squared_error) best = four;
        } else {
            best = attempt(begin, count, amax * (tensor_scale * (1.0f / 6.0f)));
        }
        m.values.insert(m.values.end(), best.values, best.values + count);
        for (std::size_t i = 0; i < count && packs; ++i) bits.put(encode_one<float>(best.quotients[i], codec), 4);
        m.side_bits += 8;
    }
    m.payload_bits = 4 * x.size();
    m.side_bits += 32;
    if (packs) m.payload = bits.take();
    return m;
}

}  // namespace apscope
