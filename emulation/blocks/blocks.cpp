#include "emulation/blocks/blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "core/float_environment.h"
#include "emulation/blocks/block_batch.h"
#include "emulation/cast/cast_plan.h"

namespace apscope::detail {

namespace {

void check(bool agrees, const char* what, std::size_t given, std::size_t wanted) {
    if (agrees) return;
    throw std::invalid_argument("the array of " + std::string(what) + " holds " +
                                std::to_string(given) + ", the shape " + std::to_string(wanted) +
                                "; they must agree");
}

// The largest magnitude of the finite elements or, with_infinities, of all elements except NaNs.
float largest_magnitude(std::span<const float> in, bool with_infinities, int threads) {
    constexpr std::size_t piece = std::size_t{1} << 16;
    const std::size_t pieces = in.size() / piece + (in.size() % piece != 0);
    std::vector<std::uint32_t> maxima(pieces);
    const auto run = [&](std::size_t p) {
        simd::run<LargestBelow>(in.data() + p * piece, std::min(piece, in.size() - p * piece),
                                infinity_bits<float> + (with_infinities ? 1 : 0), &maxima[p]);
    };
    parallel_pieces(pieces, threads, run);
    std::uint32_t largest = 0;
    for (const std::uint32_t m : maxima) largest = std::max(largest, m);
    return std::bit_cast<float>(largest);
}

// Computes the tensor scale from the amax of the array, or from the amax in the settings if
// present.
template <class Real>
void find_tensor_scale(std::span<const Real> in, BlockEncoder& e, int threads) {
    const FloatEnvironment environment;
    if constexpr (!std::is_same_v<Real, float>) {
        if (e.format.rule == ScaleRule::ratio) {
            throw std::invalid_argument(
                "the array has float64 numbers (double), but " + e.format.name() +
                " is defined by float32 operations; convert it to float32 (float) first");
        }
    } else if (e.format.tensor_scale) {
        const bool infinities = e.format.nonfinite == BlockNonfinite::transformer_engine;
        e.set_tensor_scale(e.settings.amax ? *e.settings.amax
                                           : largest_magnitude(in, infinities, threads));
    }
}

template <class Real>
BlockJob<Real> make_job(std::span<const Real> in, BlockShape shape, const BlockFormat& format,
                        const Projection& projection, const BlockSettings& settings, int threads) {
    validate(projection, format.element);
    require_counted(projection.rounding, "blocks");
    check(in.size() == shape.size(), "elements", in.size(), shape.size());
    BlockEncoder encoder(format, projection, settings);
    find_tensor_scale(in, encoder, threads);
    return make_block_job<Real>(std::move(encoder));
}

template <class Real, class Out>
void round_array(const BlockJob<Real>& job, const Real* in, Out* out, std::uint8_t* scales,
                 BlockShape shape, int threads) {
    const bool streams = std::is_same_v<Real, Out> && shape.size() * sizeof(Out) >= streaming_bytes;
    const BatchRounder<Real, Out> round(job, in, out, scales, streams);
    for_batches(shape, job.encoder.format, threads, round, [&] {
        if (streams) finish_streaming();
    });
}

template <class Real>
void quantize_array(std::span<const Real> in, std::span<Real> out, BlockShape shape,
                    const BlockFormat& format, const Projection& projection, std::uint64_t seed,
                    int threads, bool by_rule = false) {
    check(out.size() == shape.size(), "results", out.size(), shape.size());
    BlockJob<Real> job = make_job(in, shape, format, projection,
                                  {array_stream(seed, projection.random_bits), {}}, threads);
    if (by_rule) job.served = false;
    round_array(job, in.data(), out.data(), nullptr, shape, threads);
}

template <class Real>
float encode_array(std::span<const Real> in, std::span<std::uint8_t> codes,
                   std::span<std::uint8_t> scales, BlockShape shape, const BlockFormat& format,
                   const Projection& projection, const BlockSettings& settings, int threads,
                   bool by_rule = false) {
    check(codes.size() == shape.size(), "element codes", codes.size(), shape.size());
    check(scales.size() == shape.scales(format), "scale codes", scales.size(),
          shape.scales(format));
    BlockJob<Real> job = make_job(in, shape, format, projection, settings, threads);
    if (by_rule) job.served = false;
    round_array(job, in.data(), codes.data(), scales.data(), shape, threads);
    return job.encoder.tensor_scale;
}

// Throws for a code that is not below `count`, a power of two.
void check_width(std::span<const std::uint8_t> codes, std::size_t count, const char* what) {
    if (count > 255) return;  // every code has at most 8 bits
    std::uint8_t all = 0;
    for (const std::uint8_t code : codes) all |= code;
    if (all < count) return;
    const auto wide =
        std::find_if(codes.begin(), codes.end(), [&](std::uint8_t code) { return code >= count; });
    throw std::invalid_argument("the " + std::string(what) + " code " + std::to_string(*wide) +
                                " at " + std::to_string(wide - codes.begin()) + " is not below " +
                                std::to_string(count));
}

// Decodes the element codes of a format.
class ElementDecoder {
public:
    explicit ElementDecoder(const BlockFormat& format) : format_(format) {
        if (!format.twos_complement) map_ = make_code_plan(format.element);
        if (!map_ && !format.twos_complement) {
            const std::vector<double> values = element_values(format);
            values_.assign(values.begin(), values.end());
        }
        unit_ = static_cast<float>(format.element.smallest_positive());
    }
    void operator()(const std::uint8_t* codes, float* out, std::size_t count) const {
        if (map_) return simd::run<DecodeCodes<std::uint8_t>>(codes, out, count, &*map_);
        if (format_.twos_complement)
            return simd::run<DecodeIntegers>(codes, out, count, format_.element.storage_bits(),
                                             unit_);
        for (std::size_t i = 0; i < count; ++i) out[i] = values_[codes[i]];
    }

private:
    const BlockFormat& format_;
    std::vector<float> values_;
    std::optional<CodeMap> map_;
    float unit_;
};

// Multiplies elements by the scales of their blocks. `scales` has one scale per `steps` times
// block_step elements or, if steps is 0, one per element.
template <bool divides>
void scale_elements(const float* elements, float* out, std::size_t count, std::size_t steps,
                    const float* scales, float divisor) {
    steps > 0 ? simd::run<ScaleBlocksInSteps<divides>>(elements, out, count / (steps * block_step),
                                                       steps, scales, divisor)
              : simd::run<ScaleBlockElements<divides>>(elements, out, count, scales, divisor);
}

void check_decoding(std::span<const std::uint8_t> codes, std::span<const std::uint8_t> scales,
                    std::span<float> out, BlockShape shape, const BlockFormat& format) {
    check(codes.size() == shape.size(), "element codes", codes.size(), shape.size());
    check(out.size() == shape.size(), "results", out.size(), shape.size());
    check(scales.size() == shape.scales(format), "scale codes", scales.size(),
          shape.scales(format));
    check_width(codes, std::size_t{1} << format.element.storage_bits(), "element");
    check_width(scales, std::size_t{1} << format.scale.storage_bits(), "scale");
}

}  // namespace

void quantize_blocks(std::span<const float> in, std::span<float> out, BlockShape shape,
                     const BlockFormat& format, const Projection& projection, std::uint64_t seed,
                     int threads) {
    quantize_array(in, out, shape, format, projection, seed, threads);
}
void quantize_blocks(std::span<const double> in, std::span<double> out, BlockShape shape,
                     const BlockFormat& format, const Projection& projection, std::uint64_t seed,
                     int threads) {
    quantize_array(in, out, shape, format, projection, seed, threads);
}
float encode_blocks(std::span<const float> in, std::span<std::uint8_t> codes,
                    std::span<std::uint8_t> scales, BlockShape shape, const BlockFormat& format,
                    const Projection& projection, std::uint64_t seed, int threads) {
    return encode_array(in, codes, scales, shape, format, projection,
                        {array_stream(seed, projection.random_bits), {}}, threads);
}
float encode_blocks(std::span<const float> in, std::span<std::uint8_t> codes,
                    std::span<std::uint8_t> scales, BlockShape shape, const BlockFormat& format,
                    const Projection& projection, const BlockSettings& settings, int threads) {
    return encode_array(in, codes, scales, shape, format, projection, settings, threads);
}
float encode_blocks(std::span<const double> in, std::span<std::uint8_t> codes,
                    std::span<std::uint8_t> scales, BlockShape shape, const BlockFormat& format,
                    const Projection& projection, std::uint64_t seed, int threads) {
    return encode_array(in, codes, scales, shape, format, projection,
                        {array_stream(seed, projection.random_bits), {}}, threads);
}
float encode_blocks(std::span<const double> in, std::span<std::uint8_t> codes,
                    std::span<std::uint8_t> scales, BlockShape shape, const BlockFormat& format,
                    const Projection& projection, const BlockSettings& settings, int threads) {
    return encode_array(in, codes, scales, shape, format, projection, settings, threads);
}

void quantize_blocks_by_rule(std::span<const float> in, std::span<float> out, BlockShape shape,
                             const BlockFormat& format, const Projection& projection,
                             std::uint64_t seed) {
    quantize_array(in, out, shape, format, projection, seed, 1, true);
}
void quantize_blocks_by_rule(std::span<const double> in, std::span<double> out, BlockShape shape,
                             const BlockFormat& format, const Projection& projection,
                             std::uint64_t seed) {
    quantize_array(in, out, shape, format, projection, seed, 1, true);
}
float encode_blocks_by_rule(std::span<const float> in, std::span<std::uint8_t> codes,
                            std::span<std::uint8_t> scales, BlockShape shape,
                            const BlockFormat& format, const Projection& projection,
                            const BlockSettings& settings) {
    return encode_array(in, codes, scales, shape, format, projection, settings, 1, true);
}
float encode_blocks_by_rule(std::span<const double> in, std::span<std::uint8_t> codes,
                            std::span<std::uint8_t> scales, BlockShape shape,
                            const BlockFormat& format, const Projection& projection,
                            const BlockSettings& settings) {
    return encode_array(in, codes, scales, shape, format, projection, settings, 1, true);
}

bool blocks_have_loops(const BlockFormat& format, const Projection& projection) {
    return make_block_job<float>(
               BlockEncoder(format, projection, {array_stream(0, projection.random_bits), {}}))
        .served;
}

void decode_blocks(std::span<const std::uint8_t> codes, std::span<const std::uint8_t> scales,
                   float tensor_scale, std::span<float> out, BlockShape shape,
                   const BlockFormat& format, int threads) {
    check_decoding(codes, scales, out, shape, format);
    const ElementDecoder decode(format);
    const std::vector<double> values = scale_values(format);
    const float divisor = format.tensor_scale ? tensor_scale : 1.0f;
    const auto scale_run = divisor == 1.0f ? scale_elements<false> : scale_elements<true>;
    const bool streams = out.size_bytes() >= streaming_bytes;
    for_batches(
        shape, format, threads,
        [&](const BlockBatch& batch) {
            float elements[batch_elements], spread[batch_elements], scale[batch_blocks];
            alignas(64) float results[batch_elements];
            for (std::size_t b = 0; b < batch.blocks; ++b)
                scale[b] = static_cast<float>(values[scales[batch.scale + b]]);
            const auto run = [&](std::size_t first, std::size_t count, std::size_t steps,
                                 const float* of) {
                decode(codes.data() + first, elements, count);
                scale_run(elements, streams ? results : out.data() + first, count, steps, of,
                          divisor);
                if (streams) copy_streaming(results, out.data() + first, count * sizeof(float));
            };
            const std::size_t count = batch.counts[0];
            if (batch.columns) {
                for (std::size_t row = 0; row < count; ++row)
                    run(batch.first + row * batch.stride, batch.blocks, 0, scale);
            } else if (batch.elements > batch_elements) {  // one large block
                std::fill_n(spread, batch_elements, scale[0]);
                for (std::size_t i = 0; i < count; i += batch_elements)
                    run(batch.first + i, std::min(batch_elements, count - i), 0, spread);
            } else if (batch.uniform && count % block_step == 0) {
                run(batch.first, batch.elements, count / block_step, scale);
            } else {
                std::size_t spread_to = 0;
                for (std::size_t b = 0; b < batch.blocks; ++b) {
                    const std::size_t n = batch.counts[batch.uniform ? 0 : b];
                    std::fill_n(spread + spread_to, n, scale[b]);
                    spread_to += n;
                }
                run(batch.first, batch.elements, 0, spread);
            }
        },
        [&] {
            if (streams) finish_streaming();
        });
}

void decode_blocks_by_rule(std::span<const std::uint8_t> codes,
                           std::span<const std::uint8_t> scales, float tensor_scale,
                           std::span<float> out, BlockShape shape, const BlockFormat& format) {
    check_decoding(codes, scales, out, shape, format);
    const FloatEnvironment environment;
    const std::vector<double> of_elements = element_values(format),
                              of_scales = scale_values(format);
    for_batches(
        shape, format, 1,
        [&](const BlockBatch& batch) {
            for (std::size_t b = 0; b < batch.blocks; ++b) {
                const BlockPlace place = batch.place(b);
                const double scale = of_scales[scales[place.scale]];
                for (std::size_t j = 0; j < place.count; ++j) {
                    const std::size_t i = place.first + j * place.stride;
                    out[i] = combine_block_value<float>(format, of_elements[codes[i]], scale,
                                                        tensor_scale);
                }
            }
        },
        [] {});
}

}  // namespace apscope::detail
