#include "emulation/schemes/two_phase_bucket.h"

#include <algorithm>
#include <vector>

#include "emulation/schemes/two_phase.h"

namespace apscope::detail {

std::vector<ShardPart> shard_parts(std::size_t size, std::size_t workers, std::size_t block,
                                   std::size_t first, std::size_t last) {
    std::vector<ShardPart> parts;
    if (first == last) return parts;
    for (std::size_t k = first / shard_of(0, size, workers).count; k < workers; ++k) {
        const auto [begin, length] = shard_of(k, size, workers);
        const std::size_t end = begin + length;
        if (length == 0 || begin >= last) break;
        ShardPart part{k, begin, end};
        if (block != 0 && first > begin) part.first += (first - begin) / block * block;
        if (block != 0 && last < end)
            part.end = std::min(end, begin + (last - begin + block - 1) / block * block);
        parts.push_back(part);
    }
    return parts;
}

std::size_t elements_of_shards(const Bucket& bucket, std::size_t elements, std::size_t workers) {
    if (elements == 0) return 0;
    const std::vector<ShardPart> parts =
        shard_parts(bucket.size(), workers, 0, bucket.first, bucket.first + elements);
    return parts.back().end - parts.front().first;
}

void encode_parts(const TrainingStep& step, std::span<const ShardPart> parts,
                  const EncodeNeighbours& encode, std::size_t worker, std::span<const double> own,
                  Message& m) {
    const std::size_t first = parts.front().first, count = parts.back().end - first;
    const Bucket bucket = step.bucket->of(worker, first);
    TrainingStep of_parts = step;
    of_parts.bucket = &bucket;
    const Bucket::ArrayRow& row = bucket.rows[0];
    encode(of_parts, RowReader::of(row.seen.read(first, count)), row.rounded.read(first, count),
           worker, m);
    std::ranges::copy(own,
                      m.values.begin() + static_cast<std::ptrdiff_t>(step.bucket->first - first));
}

void reduce_bucket(const SentPieces& sent, const BucketPhases& phases, std::size_t block,
                   Row& sum) {
    sum.resize(sent.place.size);
    if (sum.empty()) return;
    const Bucket& bucket = *sent.step.bucket;
    const std::size_t workers = sent.workers();
    const std::vector<ShardPart> parts =
        shard_parts(bucket.size(), workers, block, bucket.first, bucket.first + sum.size());
    const std::size_t first = parts.front().first, count = parts.back().end - first;
    const auto lead = static_cast<std::ptrdiff_t>(bucket.first - first);
    std::vector<Message> messages(workers);
    for (std::size_t w = 0; w < workers; ++w)
        encode_parts(sent.step, parts, phases.phase1, w, sent.messages[w].values, messages[w]);
    TrainingStep step = sent.step;
    step.bucket = nullptr;
    Row total;
    phases.add_up({step, sent.state, sent.theta, {0, count}, messages, sent.topology}, total);
    step.message_count = 2 * step.workers;
    step.workers = 1;
    step.row = bucket.size();
    for (const ShardPart& part : parts) {
        const std::span<double> of_shard =
            std::span(total).subspan(part.first - first, part.count());
        step.shape = {static_cast<std::int64_t>(of_shard.size())};
        phases.phase2(step, part.owner, of_shard);
    }
    std::copy_n(total.begin() + lead, sum.size(), sum.begin());
}

}  // namespace apscope::detail
