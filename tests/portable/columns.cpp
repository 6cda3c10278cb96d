// Replays a trace through schemes and prints every column of every row, numbers as the bits of
// their fp64 values, so that the output of two builds can be compared byte for byte.
#include <apscope/apscope.h>

#include <bit>
#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

// One line per scheme.
std::vector<std::string> specs_of(const std::string& path) {
    std::ifstream file(path);
    std::vector<std::string> specs;
    for (std::string line; std::getline(file, line);) specs.push_back(line);
    if (specs.empty())
        throw std::invalid_argument(path + " has no spec; it must have one line per scheme");
    return specs;
}

// All NaNs are printed alike, because their bits differ between processors.
std::uint64_t bits_of(double x) {
    return std::bit_cast<std::uint64_t>(std::isnan(x) ? std::numeric_limits<double>::quiet_NaN()
                                                      : x);
}

void print_rows(const apscope::Results& results) {
    for (const apscope::Column& column : apscope::Results::columns())
        std::printf("%.*s\t", static_cast<int>(column.name.size()), column.name.data());
    std::printf("\n");
    for (std::size_t row = 0; row < results.size(); ++row) {
        for (const auto& [name, kind] : apscope::Results::columns()) {
            if (kind == apscope::ColumnKind::text) {
                const std::string_view text = results.text(row, name);
                std::printf("%.*s\t", static_cast<int>(text.size()), text.data());
            } else {
                std::printf("%016" PRIx64 "\t", bits_of(results.number(row, name)));
            }
        }
        std::printf("\n");
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3 && argc != 5) {
        std::fprintf(stderr, "usage: apscope_columns TRACE SPECS [FIRST_STEP END_STEP], with a "
                             "line a scheme in the file SPECS\n");
        return 2;
    }
    try {
        apscope::ReplayOptions options;
        if (argc == 5)
            options.first_step = std::stoll(argv[3]), options.end_step = std::stoll(argv[4]);
        print_rows(apscope::replay(apscope::open_trace(argv[1]), specs_of(argv[2]), options));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "apscope_columns: %s\n", error.what());
        return 2;
    }
}
