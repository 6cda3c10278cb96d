// A matrix product whose products and partial sums are rounded to custom formats: the accumulator's
// width decides the accuracy of the result.
#include <apscope/apscope.h>

#include <cmath>
#include <cstdio>
#include <vector>

int main() {
    constexpr std::size_t rows = 8, terms = 1024, columns = 8;
    std::vector<float> a(rows * terms), b(terms * columns);
    for (std::size_t i = 0; i < a.size(); ++i)
        a[i] = 0.25f + static_cast<float>(i * 37 % 101) / 101.0f;
    for (std::size_t i = 0; i < b.size(); ++i)
        b[i] = 0.25f + static_cast<float>(i * 53 % 103) / 103.0f;

    // Operands of 8 bits, as matrix units take them.
    const apscope::Quantizer operand{apscope::format("float8_e4m3fn")};
    operand(a, a);
    operand(b, b);

    const apscope::MatrixSizes sizes{.rows = rows, .terms = terms, .columns = columns};
    const auto product = [&](const apscope::Summation& how) {
        std::vector<float> out(rows * columns);
        apscope::matmul(a, b, out, sizes, how);
        return out;
    };
    const std::vector<float> exact = product({.format = apscope::format("fp32"), .order = "exact"});

    const auto show = [&](const char* what, const apscope::Summation& how) {
        const std::vector<float> out = product(how);
        double error = 0.0;
        for (std::size_t i = 0; i < out.size(); ++i)
            error = std::fmax(error, std::fabs(out[i] - exact[i]) / exact[i]);
        std::printf("%-44s largest relative error %.2e\n", what, error);
    };
    const apscope::FloatFormat fp32 = apscope::format("fp32"), bf16 = apscope::format("bf16"),
                               fp16 = apscope::format("fp16");
    const apscope::FloatFormat own = apscope::format("e8m13");  // 22 bits: no hardware has it
    show("fp32 accumulator", {.format = fp32});
    show("22-bit accumulator e8m13", {.format = fp32, .accumulate = own});
    show("22-bit accumulator, chunks of 32",
         {.format = fp32, .order = "chunked:32", .accumulate = own});
    show("fp16 accumulator", {.format = fp32, .accumulate = fp16});
    show("bf16 accumulator", {.format = fp32, .accumulate = bf16});
    show("bf16 accumulator, pairwise", {.format = fp32, .order = "pairwise", .accumulate = bf16});
    show("bf16 accumulator, products rounded to bf16",
         {.format = fp32, .accumulate = bf16, .product = bf16});
    show("bf16 accumulator, stochastic",
         {.format = fp32,
          .accumulate = bf16,
          .projection = {.rounding = apscope::RoundingMode::stochastic},
          .seed = 1});
}
