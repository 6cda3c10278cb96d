// libFuzzer's entry; APSCOPE_FUZZ_TARGET is one of targets.h.
#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    apscope::detail::fuzz::APSCOPE_FUZZ_TARGET({data, size});
    return 0;
}
