#include <sys/mman.h>
#include <unistd.h>

#include "analysis/trace/safetensors.h"
#include "tests/fuzz/targets.h"

namespace apscope::detail::fuzz {

void safetensors(Bytes bytes) {
    struct File {
        int descriptor = memfd_create("safetensors", MFD_CLOEXEC);
        ~File() { close(descriptor); }
    } file;
    require(write(file.descriptor, bytes.data(), bytes.size()) ==
                static_cast<ssize_t>(bytes.size()),
            "the memory file took fewer bytes");
    const std::string path = "/proc/self/fd/" + std::to_string(file.descriptor);
    std::shared_ptr<const SafetensorsFile> opened, again;
    SafetensorsHeaders seen;
    if (!taken([&] { opened = SafetensorsFile::open(path); }))
        return require(!taken([&] { SafetensorsFile::open(path, &seen); }),
                       "taken at another time");
    for (int i = 0; i < 2; ++i) again = SafetensorsFile::open(path, &seen);
    require(opened->metadata() == again->metadata(), "other metadata from a header that was seen");
    std::size_t bytes_told = 0;
    for (const auto& [name, entry] : opened->entries()) {
        require(again->bytes(name).size() == opened->bytes(name).size(),
                "another entry from a header that was seen");
        unsigned sum = 0;
        for (const std::byte byte : opened->bytes(name)) sum += static_cast<unsigned>(byte);
        bytes_told += opened->bytes(name).size() + (sum & 0);
        TensorView view;
        if (taken([&] { view = opened->read(name); }))
            require(view.values.size() == entry.size, "a tensor of another size than its entry");
    }
    require(bytes_told <= bytes.size(), "tensors of more bytes than the file");
}

}  // namespace apscope::detail::fuzz
