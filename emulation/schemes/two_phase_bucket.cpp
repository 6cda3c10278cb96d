#include "emulation/schemes/two_phase_bucket.h"

#include <algorithm>
#include <vector>

namespace apscope::detail {

void reduce_bucket(const SentPieces& sent, const BucketPhases& phases, Row& sum) {
    sum.resize(sent.place.size);
    if (sum.empty()) return;
    const Bucket& bucket = *sent.step.bucket;
    const std::size_t workers = sent.workers(), size = bucket.rows.at(0).size,
                      length = (size + workers - 1) / workers, begin = bucket.first / length,
                      end = (bucket.first + sum.size() - 1) / length + 1, first = begin * length,
                      count = std::min(end * length, size) - first, own = bucket.first - first;
    TrainingStep step = sent.step;
    std::vector<Message> messages(workers);
    for (std::size_t w = 0; w < workers; ++w) {
        const Bucket of_worker = bucket.of(w, first);
        step.bucket = &of_worker;
        const std::span<const double> seen = of_worker.rows[0].read(first, count),
                                      x = of_worker.rounded[0].read(first, count);
        phases.encode(step, RowReader::of(seen), x, w, messages[w]);
        std::ranges::copy(sent.messages[w].values,
                          messages[w].values.begin() + static_cast<std::ptrdiff_t>(own));
    }
    step.bucket = nullptr;
    Row total;
    phases.add_up({step, sent.state, sent.theta, {0, count}, messages, sent.topology}, total);
    step.workers = 1;
    step.row = size;
    for (std::size_t k = begin; k < end; ++k) {
        const std::span<double> shard =
            std::span(total).subspan((k - begin) * length, std::min(length, size - k * length));
        step.shape = {static_cast<std::int64_t>(shard.size())};
        phases.finish(step, k, shard);
    }
    std::copy_n(total.begin() + static_cast<std::ptrdiff_t>(own), sum.size(), sum.begin());
}

}  // namespace apscope::detail
