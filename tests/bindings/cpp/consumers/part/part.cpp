// apscope's public headers can be included, and nothing else of its sources.
#include <apscope/apscope.h>

#include <iostream>

#if __has_include("core/float_format.h") ||                                        \
                  __has_include("analysis/summary/summary_figures.inc") ||         \
                                __has_include("bindings/cpp/apscope/apscope.h") || \
                                              __has_include("source/parquet.h")
#error "apscope's own folders are on the include path"
#endif

int main() { std::cout << apscope::Quantizer{apscope::format("e4m3")}(0.1f) << '\n'; }
