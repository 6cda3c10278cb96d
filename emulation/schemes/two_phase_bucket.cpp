#include "emulation/schemes/two_phase_bucket.h"

#include <algorithm>
#include <vector>

#include "emulation/schemes/two_phase.h"

namespace apscope::detail {

namespace {

// The consecutive parts of an array's shards that contain elements first .. last - 1: complete
// shards or, if block != 0, complete blocks of shards.
struct ShardParts {
    struct Part {
        std::size_t owner, first, end;
    };
    std::vector<Part> parts;

    ShardParts(std::size_t size, std::size_t workers, std::size_t block, std::size_t first,
               std::size_t last) {
        for (std::size_t k = first / shard_of(0, size, workers).count; k < workers; ++k) {
            const auto [begin, length] = shard_of(k, size, workers);
            const std::size_t end = begin + length;
            if (length == 0 || begin >= last) break;
            Part part{k, begin, end};
            if (block != 0 && first > begin) part.first += (first - begin) / block * block;
            if (block != 0 && last < end)
                part.end = std::min(end, begin + (last - begin + block - 1) / block * block);
            parts.push_back(part);
        }
    }
    std::size_t first() const { return parts.front().first; }
    std::size_t count() const { return parts.back().end - first(); }
};

}  // namespace

std::size_t elements_of_shards(const Bucket& bucket, std::size_t elements, std::size_t workers) {
    if (elements == 0) return 0;
    return ShardParts(bucket.size(), workers, 0, bucket.first, bucket.first + elements).count();
}

void reduce_bucket(const SentPieces& sent, const BucketPhases& phases, std::size_t block,
                   Row& sum) {
    sum.resize(sent.place.size);
    if (sum.empty()) return;
    const Bucket& bucket = *sent.step.bucket;
    const std::size_t workers = sent.workers();
    const ShardParts shards(bucket.size(), workers, block, bucket.first, bucket.first + sum.size());
    const std::size_t first = shards.first(), count = shards.count();
    const auto lead = static_cast<std::ptrdiff_t>(bucket.first - first);
    TrainingStep step = sent.step;
    std::vector<Message> messages(workers);
    for (std::size_t w = 0; w < workers; ++w) {
        const Bucket of_worker = bucket.of(w, first);
        step.bucket = &of_worker;
        const Bucket::ArrayRow& row = of_worker.rows[0];
        phases.phase1(step, RowReader::of(row.seen.read(first, count)),
                      row.rounded.read(first, count), w, messages[w]);
        std::ranges::copy(sent.messages[w].values, messages[w].values.begin() + lead);
    }
    step.bucket = nullptr;
    Row total;
    phases.add_up({step, sent.state, sent.theta, {0, count}, messages, sent.topology}, total);
    step.message_count = 2 * step.workers;
    step.workers = 1;
    step.row = bucket.size();
    for (const ShardParts::Part& part : shards.parts) {
        const std::span<double> of_shard =
            std::span(total).subspan(part.first - first, part.end - part.first);
        step.shape = {static_cast<std::int64_t>(of_shard.size())};
        phases.phase2(step, part.owner, of_shard);
    }
    std::copy_n(total.begin() + lead, sum.size(), sum.begin());
}

}  // namespace apscope::detail
