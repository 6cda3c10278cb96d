// xtensor and apscope, nothing else.
#include <apscope/xtensor.h>

#include <iostream>

int main() {
    const xt::xarray<float> x = {0.2f, 480.0f, 500.0f};
    const auto y = apscope::quantize(x * 0.5f, apscope::Quantizer{apscope::format("e4m3")});
    std::cout.precision(9);
    std::cout << y(0) << ' ' << y(1) << ' ' << y(2) << '\n';
    const xt::xtensor<float, 2> gradients = {
        {16.0f, 1.0f}, {1.0f, 2.0f}, {1.0f, 3.0f}, {1.0f, 0.1f}};
    const auto sum =
        apscope::allreduce(gradients, apscope::format("e4m3"), 0, {.topology = "exact"});
    std::cout << sum(0) << ' ' << sum(1) << '\n';
}
