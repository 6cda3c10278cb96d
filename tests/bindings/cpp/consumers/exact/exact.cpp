// Boost.Multiprecision and apscope, nothing else.
#include <apscope/apscope.h>
#include <apscope/multiprecision.h>

#include <iostream>

int main() {
    using boost::multiprecision::cpp_int;
    using boost::multiprecision::cpp_rational;
    const apscope::FloatFormat format = apscope::format("e4m3");
    std::cout << apscope::exact_value(format, 1) << '\n';
    const cpp_rational tie(17, 16), more = tie + cpp_rational(1, cpp_int(1) << 1000);
    std::cout << apscope::round(tie, format) << ' ' << apscope::round(more, format) << '\n';
}
