// zipml: a codebook of its own for every bucket of every worker: the k levels of least variance under
// stochastic rounding (emulation/codecs/optimal_levels.h). The levels travel as fp32 numbers.
//
// Levels are rounded to fp32 outwards at the ends, so that no value lies outside.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "emulation/codecs/bits.h"
#include "emulation/codecs/levels.h"
#include "emulation/codecs/optimal_levels.h"
#include "emulation/scheme.h"

namespace apscope {

namespace {

std::vector<double> in_fp32(std::vector<double> levels) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (std::size_t i = 0; i < levels.size(); ++i) {
        float nearest = static_cast<float>(levels[i]);
        if (i == 0 && nearest > levels[i]) nearest = std::nextafter(nearest, -infinity);
        if (i + 1 == levels.size() && nearest < levels[i]) nearest = std::nextafter(nearest, infinity);
        levels[i] = nearest;
    }
    levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
    return levels;
}

struct Zipml {
    std::size_t levels, bucket, candidates;
    LevelSearch search;
    int random_bits;

    Message encode(const TensorStep& step, std::span<const double> x, int worker) const {
        const std::size_t unit = bucket == 0 ? std::max<std::size_t>(x.size(), 1) : bucket;
        const int width = level_bits(levels);
        const RandomStream stream = step.stream(worker, random_bits);
        Message m;
        BitWriter bits;
        for (std::size_t begin = 0; begin < x.size(); begin += unit) {
            const std::span<const double> part = x.subspan(begin, std::min(unit, x.size() - begin));
            const std::vector<double> table = in_fp32(optimal_levels(part, levels, search, candidates));
            const Message drawn = encode_levels(part, table, 1.0, LevelRule::stochastic, stream, false, begin);
            m.values.insert(m.values.end(), drawn.values.begin(), drawn.values.end());
            m.bias.insert(m.bias.end(), drawn.bias.begin(), drawn.bias.end());
            m.variance.insert(m.variance.end(), drawn.variance.begin(), drawn.variance.end());
            for (const double code : drawn.codes) {
                if (step.packs) bits.put(static_cast<std::uint64_t>(code), width);
            }
            m.side_bits += 32 * levels;
        }
        m.payload_bits = x.size() * static_cast<std::uint64_t>(width);
        if (step.packs) m.payload = bits.take();
        return m;
    }
};

}  // namespace

SchemeDefinition zipml_definition() {
    return {"zipml",
            "ZipML",
            "the levels of least variance for each bucket's own values, stochastic; gathered and added in fp32",
            "Zhang et al., ZipML, ICML 2017 (arXiv:1611.05402): variance-optimal quantization points",
            "gradients",
            false,
            {{"levels", "16", "levels of a codebook, 2 to 65536"},
             {"bucket", "0", "consecutive elements that share a codebook; 0: the whole tensor"},
             {"method", "fast", "exact: O(k n^2); fast: the same optimum in O(k n log n); candidates: over some of the values"},
             {"candidates", "512", "method=candidates: how many values may be levels"},
             {"random_bits", "32", "random bits of stochastic rounding, 1 to 53"}},
            [](const SchemeArguments& arguments, Scheme& scheme) {
                constexpr std::array<std::string_view, 3> methods{"exact", "fast", "candidates"};
                const std::string_view method = arguments.choice("method", methods);
                Zipml z;
                z.levels = static_cast<std::size_t>(arguments.integer("levels", 2, 65536));
                z.bucket = static_cast<std::size_t>(arguments.integer("bucket", 0, 1L << 40));
                z.candidates = static_cast<std::size_t>(arguments.integer("candidates", 2, 1L << 30));
                z.search = method == "exact" ? LevelSearch::exact : method == "fast" ? LevelSearch::fast : LevelSearch::candidates;
                z.random_bits = static_cast<int>(arguments.integer("random_bits", 1, 53));
                TensorScheme t;
                t.grid = "levels:" + std::to_string(z.levels);
                t.draws = true;
                t.encode = [z](const TensorStep& step, const State&, std::span<const double> x, int worker) { return z.encode(step, x, worker); };
                scheme.tensor = std::make_shared<const TensorScheme>(std::move(t));
            }};
}

}  // namespace apscope
