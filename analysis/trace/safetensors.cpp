#include "analysis/trace/safetensors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include "analysis/trace/one_line.h"
#include "core/error.h"
#include "core/float_environment.h"
#include "core/limits.h"
#include "emulation/machine/buffers.h"

namespace apscope::detail {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors bytes are little-endian and are used in place");

// A view of at least this many bytes releases its pages when it is destroyed. Smaller views release
// them together, per file, once this many bytes, or the complete file, were read, because releasing
// them one by one would cause too many page faults.
constexpr std::size_t drop_pages_from = std::size_t{1} << 18;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
    throw error(one_line(path.string() + ": " + what), ErrorKind::unreadable_file);
}

// The value of an fp16 code, whose bits are s eeeee mmmmmmmmmm, as an fp32 number, which is exact;
// NaN payloads keep their leading bits.
float widen_fp16(std::uint16_t code) {
    const std::uint32_t sign = std::uint32_t(code & 0x8000u) << 16;
    const std::uint32_t field = (code >> 10) & 0x1fu, fraction = code & 0x3ffu;
    if (field == 0) {
        const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
        return sign ? -magnitude : magnitude;
    }
    const std::uint32_t exponent = field == 0x1f ? 0xffu : field + (127 - 15);
    return std::bit_cast<float>(sign | exponent << 23 | fraction << 13);
}

float widen_bf16(std::uint16_t code) { return std::bit_cast<float>(std::uint32_t{code} << 16); }

template <typename T, typename Convert>
void convert_all(const std::byte* bytes, Buffer<float>& out, Convert convert) {
    for (std::size_t i = 0; i < out.size(); ++i) {
        T value;
        std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
        out[i] = convert(value, i);
    }
}

}  // namespace

std::shared_ptr<const SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path,
                                                             SafetensorsHeaders* seen,
                                                             std::shared_ptr<FileState> known) {
    std::shared_ptr<SafetensorsFile> file(new SafetensorsFile(path, std::move(known)));
    if (file->length() < 8)
        refuse(path, "truncated: " + std::to_string(file->length()) +
                         " bytes, fewer than the 8 that give the header's length");
    file->parse(seen);
    return file;
}

void SafetensorsFile::parse(SafetensorsHeaders* seen) {
    std::uint64_t header_length = 0;
    std::memcpy(&header_length, file_.data(), 8);
    if (header_length > limits::safetensors_header)
        refuse(path(), "the header's length is " + std::to_string(header_length) +
                           " bytes, above the format's limit of " +
                           std::to_string(limits::safetensors_header));
    if (header_length > length() - 8)
        refuse(path(), "truncated: the header needs " + std::to_string(8 + header_length) +
                           " bytes, the file has " + std::to_string(length()));
    const std::string_view text(reinterpret_cast<const char*>(file_.data()) + 8, header_length);
    const std::uint64_t data_length = length() - 8 - header_length;
    header_ = seen != nullptr ? seen->header(text, data_length, path())
                              : parse_safetensors_header(text, data_length, path());
    data_ = file_.data() + 8 + header_length;
}

const SafetensorsEntry& SafetensorsFile::entry(const std::string& name) const {
    const auto match = entries().find(name);
    if (match == entries().end())
        refuse(path(), "no tensor '" + limits::clipped(name) + "' in this file");
    return match->second;
}

std::span<const std::byte> SafetensorsFile::bytes(const std::string& name) const {
    const SafetensorsEntry& one = entry(name);
    return {data_ + one.begin, static_cast<std::size_t>(one.end - one.begin)};
}

// Pages that another view still uses are loaded again, unchanged, when it reads them.
void SafetensorsFile::count_small_view(std::size_t length) const {
    if (!file_.mapped()) return;
    const std::size_t limit = std::min(this->length(), drop_pages_from);
    if (small_views_.fetch_add(length, std::memory_order_relaxed) + length < limit) return;
    small_views_.store(0, std::memory_order_relaxed);
    file_.drop_pages(file_.data(), this->length());
}

TensorView SafetensorsFile::read(const std::string& name) const {
    const SafetensorsEntry& entry = this->entry(name);
    const std::byte* bytes = data_ + entry.begin;
    const std::size_t length = entry.end - entry.begin;
    // Called when the bytes of the file are no longer needed.
    const auto let_go = [file = shared_from_this(), bytes, length] {
        if (length < drop_pages_from) file->count_small_view(length);
        else file->file_.drop_pages(bytes, length);
    };
    TensorView view;
    view.shape = entry.shape;

    if (entry.dtype == "F32" && reinterpret_cast<std::uintptr_t>(bytes) % alignof(float) == 0) {
        view.values = {reinterpret_cast<const float*>(bytes), entry.size};
        view.owner = std::shared_ptr<const void>(bytes, [let_go](const void*) { let_go(); });
        return view;
    }

    auto copy = std::make_shared<Buffer<float>>(entry.size);
    if (entry.dtype == "F32") {
        if (length > 0) std::memcpy(copy->data(), bytes, length);
    } else if (entry.dtype == "F16") {
        convert_all<std::uint16_t>(bytes, *copy,
                                   [](std::uint16_t v, std::size_t) { return widen_fp16(v); });
    } else if (entry.dtype == "BF16") {
        convert_all<std::uint16_t>(bytes, *copy,
                                   [](std::uint16_t v, std::size_t) { return widen_bf16(v); });
    } else if (entry.dtype == "F64") {
        const FloatEnvironment environment;  // does not flush fp32 subnormals to zero
        convert_all<double>(bytes, *copy, [&](double v, std::size_t i) {
            // A double beyond fp32's range is not an fp32 value, and its conversion would be
            // undefined.
            const bool in_range =
                std::isfinite(v) ? std::fabs(v) <= double{3.40282346638528859812e38f} : true;
            if (!std::isnan(v) && (!in_range || double{static_cast<float>(v)} != v))
                refuse(path(), "tensor '" + limits::clipped(name) + "' is F64 and its element " +
                                   std::to_string(i) +
                                   " is not an fp32 value; convert the trace with --round-to-fp32");
            return static_cast<float>(v);
        });
    } else {
        refuse(path(), "tensor '" + limits::clipped(name) + "' has dtype " + entry.dtype +
                           "; gradients must be F32, F16, BF16 or F64");
    }
    let_go();
    view.values = {copy->data(), copy->size()};
    view.owner = std::move(copy);
    return view;
}

}  // namespace apscope::detail
