#include "analysis/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "analysis/strict_json.h"
#include "core/float_environment.h"

namespace apscope {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors bytes are little-endian and are used in place");

// A view of at least this many bytes drops its pages when it goes. Smaller ones drop them together,
// a file at a time, once that many bytes, or the whole file, were read: one by one would cost more
// in page faults than it frees, and so would the smallest files.
constexpr std::size_t drop_pages_from = std::size_t{1} << 18, smallest_dropped = std::size_t{1} << 16;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
    throw std::invalid_argument(path.string() + ": " + what);
}

int bits_of(std::string_view dtype) {
    struct Known { std::string_view name; int bits; };
    static constexpr Known table[] = {
        {"F32", 32},     {"F16", 16},        {"BF16", 16},   {"F64", 64},    {"I64", 64},
        {"I32", 32},     {"I16", 16},        {"I8", 8},      {"U64", 64},    {"U32", 32},
        {"U16", 16},     {"U8", 8},          {"BOOL", 8},    {"C64", 64},    {"F8_E4M3", 8},
        {"F8_E5M2", 8},  {"F8_E8M0", 8},     {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8},
        {"F6_E2M3", 6},  {"F6_E3M2", 6},     {"F4", 4},
    };
    for (const auto& known : table)
        if (known.name == dtype) return known.bits;
    return 0;
}

// s eeeee mmmmmmmmmm: every fp16 value is an fp32 value; NaN payloads keep their leading bits.
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
void convert_all(const std::byte* bytes, std::vector<float>& out, Convert convert) {
    for (std::size_t i = 0; i < out.size(); ++i) {
        T value;
        std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
        out[i] = convert(value, i);
    }
}

void drop_pages(const std::byte* begin, std::size_t length) {
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto first = (reinterpret_cast<std::uintptr_t>(begin) + page - 1) / page * page;
    const auto last = (reinterpret_cast<std::uintptr_t>(begin) + length) / page * page;
    if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

std::uint64_t natural(const nlohmann::json& value, const std::filesystem::path& path,
                      const std::string& field) {
    if (!value.is_number_unsigned())
        refuse(path, field + " is " + value.dump() + "; it must be a whole number, 0 or more");
    return value.get<std::uint64_t>();
}

SafetensorsFile::Entry parse_entry(const nlohmann::json& json, const std::filesystem::path& path,
                                   const std::string& tensor) {
    const std::string prefix = "tensor '" + tensor + "': ";
    if (!json.is_object()) refuse(path, prefix + "its header entry is not an object");
    for (const auto& [key, value] : json.items())
        if (key != "dtype" && key != "shape" && key != "data_offsets")
            refuse(path, prefix + "unknown field '" + key + "'; a tensor has dtype, shape and data_offsets");
    if (!json.contains("dtype") || !json["dtype"].is_string()) refuse(path, prefix + "dtype is missing");
    if (!json.contains("shape") || !json["shape"].is_array()) refuse(path, prefix + "shape is missing");
    if (!json.contains("data_offsets") || !json["data_offsets"].is_array() || json["data_offsets"].size() != 2)
        refuse(path, prefix + "data_offsets must be two numbers");

    SafetensorsFile::Entry entry;
    entry.dtype = json["dtype"].get<std::string>();
    entry.begin = natural(json["data_offsets"][0], path, prefix + "data_offsets[0]");
    entry.end = natural(json["data_offsets"][1], path, prefix + "data_offsets[1]");
    if (entry.begin > entry.end) refuse(path, prefix + "data_offsets end before they begin");

    const int bits = bits_of(entry.dtype);
    if (bits == 0) refuse(path, prefix + "unknown dtype '" + entry.dtype + "'");
    std::uint64_t elements = 1;
    bool overflows = false;
    for (const auto& dimension : json["shape"]) {
        const std::uint64_t extent = natural(dimension, path, prefix + "shape");
        overflows |= extent > std::uint64_t{INT64_MAX};
        overflows |= __builtin_mul_overflow(elements, extent, &elements);
        entry.shape.push_back(static_cast<std::int64_t>(extent));
    }
    std::uint64_t total_bits = 0;
    overflows |= __builtin_mul_overflow(elements, static_cast<std::uint64_t>(bits), &total_bits);
    if (overflows) refuse(path, prefix + "shape " + json["shape"].dump() + " has more elements than 64 bits count");
    if (total_bits % 8 != 0 || total_bits / 8 != entry.end - entry.begin)
        refuse(path, prefix + "shape " + json["shape"].dump() + " of " + entry.dtype + " needs " +
                         std::to_string(total_bits / 8) + " bytes, but data_offsets give " +
                         std::to_string(entry.end - entry.begin));
    entry.size = elements;
    return entry;
}

}  // namespace

std::shared_ptr<const SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
    const auto fail = [&path](int code) {
        throw std::system_error(code, std::generic_category(), path.string() + " cannot be read");
    };
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) fail(errno);
    struct Closer {
        int descriptor;
        ~Closer() { ::close(descriptor); }
    } closer{descriptor};
    struct stat status {};
    if (::fstat(descriptor, &status) != 0) fail(errno);
    if (!S_ISREG(status.st_mode)) refuse(path, "not a regular file");
    if (status.st_size < 8)
        refuse(path, "truncated: " + std::to_string(status.st_size) +
                         " bytes, fewer than the 8 that give the header's length");

    std::shared_ptr<SafetensorsFile> file(new SafetensorsFile);
    file->path_ = path;
    const auto length = static_cast<std::size_t>(status.st_size);
    void* mapping = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, descriptor, 0);
    if (mapping == MAP_FAILED) fail(errno);
    file->mapping_ = static_cast<const std::byte*>(mapping);
    file->length_ = length;
    file->parse();
    return file;
}

SafetensorsFile::~SafetensorsFile() {
    if (mapping_) ::munmap(const_cast<std::byte*>(mapping_), length_);
}

void SafetensorsFile::parse() {
    std::uint64_t header_length = 0;
    std::memcpy(&header_length, mapping_, 8);
    if (header_length > max_safetensors_header)
        refuse(path_, "the header's length is " + std::to_string(header_length) +
                          " bytes, above the format's limit of " + std::to_string(max_safetensors_header));
    if (header_length > length_ - 8)
        refuse(path_, "truncated: the header needs " + std::to_string(8 + header_length) +
                          " bytes, the file has " + std::to_string(length_));
    const std::string_view text(reinterpret_cast<const char*>(mapping_) + 8, header_length);
    if (text.empty() || text.front() != '{') refuse(path_, "the header does not begin with '{'");
    const auto header = parse_strict_json(text, path_.string() + ": the header");
    data_ = mapping_ + 8 + header_length;
    const std::uint64_t data_length = length_ - 8 - header_length;

    std::vector<std::pair<std::string, Entry>> ordered;
    for (const auto& [name, value] : header.items()) {
        if (name != "__metadata__") {
            ordered.emplace_back(name, parse_entry(value, path_, name));
            continue;
        }
        if (!value.is_object()) refuse(path_, "__metadata__ must be an object of strings");
        for (const auto& [key, text_value] : value.items()) {
            if (!text_value.is_string()) refuse(path_, "__metadata__['" + key + "'] must be a string");
            metadata_[key] = text_value.get<std::string>();
        }
    }
    std::sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
        return std::pair(a.second.begin, a.second.end) < std::pair(b.second.begin, b.second.end);
    });
    std::uint64_t covered = 0;
    for (const auto& [name, entry] : ordered) {
        if (entry.end > data_length)
            refuse(path_, "truncated: tensor '" + name + "' ends at byte " + std::to_string(entry.end) +
                              " of the data, which has " + std::to_string(data_length));
        if (entry.begin < covered)
            refuse(path_, "data_offsets of tensor '" + name + "' overlap the tensor before it");
        if (entry.begin > covered)
            refuse(path_, "a hole of " + std::to_string(entry.begin - covered) +
                              " bytes before the data_offsets of tensor '" + name + "'");
        covered = entry.end;
    }
    if (covered != data_length)
        refuse(path_, std::to_string(data_length - covered) + " bytes behind the last tensor belong to none");
    for (auto& [name, entry] : ordered) entries_.emplace(name, std::move(entry));
}

const SafetensorsFile::Entry& SafetensorsFile::entry(const std::string& name) const {
    const auto found = entries_.find(name);
    if (found == entries_.end()) refuse(path_, "no tensor '" + name + "' in this file");
    return found->second;
}

std::span<const std::byte> SafetensorsFile::bytes(const std::string& name) const {
    const Entry& found = entry(name);
    return {data_ + found.begin, static_cast<std::size_t>(found.end - found.begin)};
}

// Pages that another view still uses come back when it touches them: the file is unchanged.
void SafetensorsFile::count_small_view(std::size_t length) const {
    const std::size_t most = std::clamp(length_, smallest_dropped, drop_pages_from);
    if (small_views_.fetch_add(length, std::memory_order_relaxed) + length < most) return;
    small_views_.store(0, std::memory_order_relaxed);
    drop_pages(mapping_, length_);
}

TensorView SafetensorsFile::read(const std::string& name) const {
    const Entry& entry = this->entry(name);
    const std::byte* bytes = data_ + entry.begin;
    const std::size_t length = entry.end - entry.begin;
    // When the bytes were read for the last time.
    const auto let_go = [file = shared_from_this(), bytes, length] {
        if (length < drop_pages_from) file->count_small_view(length);
        else drop_pages(bytes, length);
    };
    TensorView view;
    view.shape = entry.shape;

    if (entry.dtype == "F32" && reinterpret_cast<std::uintptr_t>(bytes) % alignof(float) == 0) {
        view.values = {reinterpret_cast<const float*>(bytes), entry.size};
        view.owner = std::shared_ptr<const void>(bytes, [let_go](const void*) { let_go(); });
        return view;
    }

    auto copy = std::make_shared<std::vector<float>>(entry.size);
    if (entry.dtype == "F32") {
        if (length > 0) std::memcpy(copy->data(), bytes, length);
    } else if (entry.dtype == "F16") {
        convert_all<std::uint16_t>(bytes, *copy, [](std::uint16_t v, std::size_t) { return widen_fp16(v); });
    } else if (entry.dtype == "BF16") {
        convert_all<std::uint16_t>(bytes, *copy, [](std::uint16_t v, std::size_t) { return widen_bf16(v); });
    } else if (entry.dtype == "F64") {
        const FloatEnvironment environment;  // fp32 subnormals are fp32 values
        convert_all<double>(bytes, *copy, [&](double v, std::size_t i) {
            // A double beyond fp32's range is no fp32 value, and its conversion would be undefined.
            const bool in_range = std::isfinite(v) ? std::fabs(v) <= double{3.40282346638528859812e38f} : true;
            if (!std::isnan(v) && (!in_range || double{static_cast<float>(v)} != v))
                refuse(path_, "tensor '" + name + "' is F64 and its element " + std::to_string(i) +
                                  " is no fp32 value; convert the trace with --round-to-fp32");
            return static_cast<float>(v);
        });
    } else {
        refuse(path_, "tensor '" + name + "' has dtype " + entry.dtype +
                          "; gradients must be F32, F16, BF16 or F64");
    }
    let_go();
    view.values = {copy->data(), copy->size()};
    view.owner = std::move(copy);
    return view;
}

}  // namespace apscope
