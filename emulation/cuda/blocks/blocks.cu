#include "emulation/cuda/blocks/blocks_choice.h"
#include "emulation/cuda/blocks/blocks_cuda.h"
#include "emulation/cuda/machine/device_memory.h"
#include "emulation/cuda/machine/launch.h"

namespace apscope::detail {

namespace {

// The bits of an array's amax in device memory, if the format has a tensor scale.
class ArrayAmax {
public:
    ArrayAmax(const float* in, const BlockShape& shape, const BlockFormat& format,
              cudaStream_t stream)
        : bits_(format.tensor_scale ? 1 : 0, EveryByte{0}, stream) {
        if (!format.tensor_scale) return;
        launch(AmaxStep{in, shape.size(), make_block_scaling(format).counted_below, bits_.get()},
               stream);
    }
    const std::uint32_t* get() const { return bits_.get(); }
    std::uint32_t read() const { return bits_.read()[0]; }

private:
    DeviceMemory<std::uint32_t> bits_;
};

}  // namespace

void quantize_blocks_on_device(const float* in, float* out, const BlockShape& shape,
                               const BlockFormat& format, const Projection& projection,
                               std::uint64_t seed, cudaStream_t stream) {
    const ArrayAmax amax(in, shape, format, stream);
    with_encode_blocks(in, out, nullptr, nullptr, shape, format, projection,
                       BlockWords::of_array(seed, projection), amax.get(),
                       [&](const auto& step) { launch(step, stream); });
}

float encode_blocks_on_device(const float* in, std::uint8_t* codes, std::uint8_t* scales,
                              const BlockShape& shape, const BlockFormat& format,
                              const Projection& projection, std::uint64_t seed,
                              cudaStream_t stream) {
    const ArrayAmax amax(in, shape, format, stream);
    with_encode_blocks(in, nullptr, codes, scales, shape, format, projection,
                       BlockWords::of_array(seed, projection), amax.get(),
                       [&](const auto& step) { launch(step, stream); });
    if (!format.tensor_scale) return 1.0f;
    const std::uint32_t bits = amax.read();
    return tensor_scale(make_block_scaling(format), &bits).value;
}

void decode_blocks_on_device(const std::uint8_t* codes, const std::uint8_t* scales,
                             float tensor_scale, float* out, const BlockShape& shape,
                             const BlockFormat& format, cudaStream_t stream) {
    constexpr unsigned long long nowhere = ~0ull;
    const DeviceMemory<unsigned long long> wide_at(2, EveryByte{0xFF}, stream);
    with_decode_blocks(codes, scales, tensor_scale, out, shape, format, wide_at.get(),
                       wide_at.get() + 1, [&](const auto& step) { launch(step, stream); });
    const std::vector<unsigned long long> wide = wide_at.read();
    if (wide[0] == nowhere && wide[1] == nowhere) return;
    const bool element = wide[0] != nowhere;
    throw std::invalid_argument(
        "the " + std::string(element ? "element" : "scale") + " code at " +
        std::to_string(wide[element ? 0 : 1]) + " is wider than the " +
        std::to_string(element ? format.element.storage_bits() : format.scale.storage_bits()) +
        " bits of its format");
}

}  // namespace apscope::detail
