// Small safetensors files and traces for the tests, written byte by byte.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace apscope::detail::test {

// A new folder, which is removed with the object.
class TemporaryFolder {
public:
    TemporaryFolder() {
        std::string pattern =
            (std::filesystem::temp_directory_path() / "apscope-test-XXXXXX").string();
        if (!mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder");
        path_ = pattern;
    }
    ~TemporaryFolder() { std::filesystem::remove_all(path_); }
    TemporaryFolder(const TemporaryFolder&) = delete;
    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
    const std::uint64_t length = header.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    return bytes + std::string(header) + std::string(data);
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
    std::string bytes(values.size() * sizeof(T), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

// Writes a trace of one role whose tensors t0, t1, ... have these sizes; element i of worker w's
// tensor k at a step is value(step, w, k, i).
template <class Value>
void write_trace(const std::filesystem::path& folder, int workers, int steps,
                 const std::vector<std::size_t>& sizes, Value value, const char* reduction = "mean",
                 const char* stage = "local") {
    const auto list = [](std::string& to, const std::string& item) {
        to += (to.empty() ? "" : ",") + item;
    };
    std::string tensors, headers, all_steps;
    std::size_t begin = 0;
    for (std::size_t k = 0; k < sizes.size(); ++k) {
        const std::string name = "\"t" + std::to_string(k) + "\"",
                          shape = R"("shape":[)" + std::to_string(sizes[k]) + "]";
        list(tensors, R"({"name":)" + name + "," + shape + R"(,"role":"linear"})");
        list(headers, name + R"(:{"dtype":"F32",)" + shape + R"(,"data_offsets":[)" +
                          std::to_string(begin) + "," + std::to_string(begin + 4 * sizes[k]) +
                          "]}");
        begin += 4 * sizes[k];
    }
    headers = "{" + headers + "}";
    headers.resize((headers.size() + 7) / 8 * 8, ' ');
    for (int step = 0; step < steps; ++step) {
        std::string files;
        for (int w = 0; w < workers; ++w) {
            std::vector<float> values;
            for (std::size_t k = 0; k < sizes.size(); ++k)
                for (std::size_t i = 0; i < sizes[k]; ++i) values.push_back(value(step, w, k, i));
            const std::string bytes = safetensors_bytes(headers, bytes_of(values)),
                              number = std::to_string(w),
                              file = "worker_" + std::string(4 - number.size(), '0') + number +
                                     ".safetensors";
            write_file(folder / ("step_0000000" + std::to_string(step)) / file, bytes);
            list(files, "\"" + file + R"(":{"bytes":)" + std::to_string(bytes.size()) +
                            R"(,"sha256":")" + std::string(64, '0') + R"("})");
        }
        list(all_steps, R"({"number":)" + std::to_string(step) + R"(,"files":{)" + files + "}}");
    }
    write_file(folder / "manifest.json", R"({"schema_version":1,"model":"test","workers":)" +
                                             std::to_string(workers) + R"(,"stage":")" + stage +
                                             R"(","reduction":")" + reduction +
                                             R"(","loss_divided_by_workers":false,"tensors":[)" +
                                             tensors + R"(],"steps":[)" + all_steps + "]}");
}

// The message of the std::exception that `function` throws; empty if it throws none.
template <typename Function>
std::string message_of(Function function) {
    try {
        function();
    } catch (const std::exception& error) {
        return error.what();
    }
    return "";
}

}  // namespace apscope::detail::test
