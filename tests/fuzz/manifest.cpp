#include "analysis/trace/trace_manifest.h"
#include "tests/fuzz/targets.h"

namespace apscope::detail::fuzz {

void manifest(Bytes bytes) {
    Manifest read;
    if (!taken([&] { read = parse_manifest(text_of(bytes), "trace/manifest.json"); })) return;
    require(read.workers >= 1 && !read.tensors.empty(), "a manifest without workers or tensors");
    for (std::size_t i = 1; i < read.steps.size(); ++i)
        require(read.steps[i - 1].number < read.steps[i].number, "steps out of order");
    for (const StepInfo& step : read.steps) {
        for (const FileInfo& file : step.files)
            require(file.name.find('/') == std::string::npos, "a file outside its step's folder");
    }
}

}  // namespace apscope::detail::fuzz
