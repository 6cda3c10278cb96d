// Prints the statistics of a cast, a name and a number per line: dump_statistics FILE FORMAT
// ROUNDING OVERFLOW RANDOM_BITS SEED, FILE holding floats.
#include <apscope/apscope.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

int main(int, char** argv) {
    std::ifstream file(argv[1], std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    std::vector<float> x(bytes.size() / sizeof(float));
    bytes.copy(reinterpret_cast<char*>(x.data()), bytes.size());
    const apscope::Projection projection{.rounding = apscope::parse_rounding(argv[3]),
                                         .overflow = apscope::parse_overflow(argv[4]),
                                         .random_bits = std::atoi(argv[5])};
    const apscope::Quantizer q(apscope::format(argv[2]), projection,
                               static_cast<std::uint64_t>(std::atoi(argv[6])), /*threads=*/2);
    const apscope::CastStatistics s = apscope::cast_statistics(x, q);
#define PRINT(name) std::printf("%s %a\n", #name, static_cast<double>(s.name));
    PRINT(count)
    PRINT(counted)
    PRINT(nonzero)
    PRINT(underflow)
    PRINT(underflow_rate)
    PRINT(subnormal)
    PRINT(saturated)
    PRINT(overflow)
    PRINT(nan)
    PRINT(infinite)
    PRINT(bias)
    PRINT(relative_bias)
    PRINT(variance)
    PRINT(expected_bias)
    PRINT(expected_variance)
    PRINT(mse)
    PRINT(nmse)
    PRINT(sqnr_db)
    PRINT(cosine)
    PRINT(rescaled_nmse)
    PRINT(max_ulp)
    PRINT(sum_error)
    PRINT(sum_squared_error)
    PRINT(sum_squared_reference)
    PRINT(sum_signed_error)
    PRINT(sum_absolute_reference)
}
