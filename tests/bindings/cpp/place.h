// A folder for one test of files, their bytes, and the messages of errors.
#pragma once

#include <stdlib.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace apscope_test {

class Place {
public:
    Place() {
        std::string name = (std::filesystem::temp_directory_path() / "apscope-XXXXXX").string();
        path_ = mkdtemp(name.data());
    }
    ~Place() { std::filesystem::remove_all(path_); }
    std::filesystem::path operator/(const char* name) const { return path_ / name; }

    std::vector<std::string> names() const { return names_of(path_); }
    static std::vector<std::string> names_of(const std::filesystem::path& folder) {
        std::vector<std::string> all;
        for (const std::filesystem::directory_entry& entry :
             std::filesystem::directory_iterator(folder))
            all.push_back(entry.path().filename().string());
        std::ranges::sort(all);
        return all;
    }

private:
    std::filesystem::path path_;
};

inline std::string text_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::string error_of(const auto& work) {
    try {
        work();
    } catch (const std::exception& error) {
        return error.what();
    }
    return "no error";
}

}  // namespace apscope_test
