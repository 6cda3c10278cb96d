#include "emulation/schemes/shared/buckets.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "emulation/schemes/special_values.h"

namespace apscope::detail {

namespace {

// The gradients of the tensors of a bucket as one row per worker.
struct Joined {
    struct Part {
        std::size_t tensor, first, end;
    };
    std::vector<Part> parts;  // in the order of the bucket
    GradientOf gradient;

    // Copies a part of a worker's row to `out`. Elements that are not finite become 0, unless
    // `special` is true.
    void read(std::size_t worker, std::size_t first, bool special, std::span<double> out) const {
        auto part = std::ranges::upper_bound(parts, first, {}, &Part::end);
        for (std::size_t done = 0; done < out.size(); ++part) {
            const std::size_t at = first + done - part->first,
                              count = std::min(part->end - part->first - at, out.size() - done);
            if (count == 0) continue;
            const std::span<const float> from = gradient(part->tensor, worker).subspan(at, count);
            const std::span<double> into = out.subspan(done, count);
            if (special) std::ranges::copy(from, into.begin());
            else widen_finite(from, into);
            done += count;
        }
    }
};

std::size_t blocks_up_to(std::size_t end, std::size_t block) {
    return end / block + (end % block != 0 ? 1 : 0);
}

}  // namespace

SchemeKey bucket_key() {
    return {"bucket", "none",
            "none: blocks are counted from the start of a tensor; a size such as 25MB: through the "
            "tensors of one of DDP's buckets, so that a block crosses tensors"};
}

std::size_t bucket_of(const SchemeArguments& arguments, std::string_view reason_against) {
    const std::string& text = arguments.text("bucket");
    if (text == "none") return 0;
    const std::size_t bytes = parse_bucket_size("bucket=", text);
    if (reason_against.empty()) return bytes;
    throw std::invalid_argument("bucket=" + text + " counts blocks through several tensors, but " +
                                std::string(reason_against));
}

Bucket bucket_around(const SchemeParts& scheme, std::size_t tensor, std::size_t tensors,
                     const ServedElements& elements, std::size_t workers,
                     const GradientOf& gradient, const TotalsOf& totals) {
    const auto joined = std::make_shared<Joined>();
    joined->gradient = gradient;
    Bucket bucket;
    std::size_t size = 0;
    for (const TensorUnit& unit :
         TensorUnits{TensorUnits::Kind::bucket, scheme.bucket}.of(tensors, elements)) {
        if (std::ranges::count(unit.tensors, tensor) == 0) continue;
        bucket.totals = totals(unit.tensors.front());
        for (const std::size_t k : unit.tensors) {
            if (k == tensor) bucket.first = size;
            const std::size_t end = size + elements(k).value();
            joined->parts.push_back({k, size, end});
            size = end;
        }
    }
    const auto reader = [&](std::size_t w, bool special) {
        return RowReader{size,
                         [joined, w, special,
                          buffer = Row()](std::size_t first,
                                          std::size_t count) mutable -> std::span<const double> {
                             if (buffer.size() < count) buffer.resize(count);
                             const std::span<double> row = std::span(buffer).first(count);
                             joined->read(w, first, special, row);
                             return row;
                         }};
    };
    const bool sees = scheme.encoding.sees_special;
    for (std::size_t w = 0; w < workers; ++w)
        bucket.rows.push_back({w, reader(w, sees), reader(w, sees || scheme.encodes_special())});
    return bucket;
}

std::size_t lead_of(const TrainingStep& step, std::size_t size, std::size_t block) {
    if (step.bucket == nullptr || size == 0) return 0;
    // An exchange among only some of the workers has no bucket with the rows of exactly these
    // workers.
    if (const std::size_t rows = step.bucket->rows.size();
        rows != static_cast<std::size_t>(step.workers))
        throw std::invalid_argument(
            "the bucket of '" + step.tensor + "' is that of " + std::to_string(rows) +
            (rows == 1 ? " worker, but " : " workers, but ") + std::to_string(step.workers) +
            " exchange it by themselves; leave bucket out");
    return step.bucket->first % block;
}

BlocksAround blocks_around(const TrainingStep& step, const RowReader& x, std::size_t size,
                           std::size_t worker, std::size_t block) {
    if (step.bucket == nullptr) return {x, 0, blocks_up_to(size, block), true, true};
    if (size == 0) return {x, 0, 0, false, false};
    const RowReader& array = step.bucket->row(worker).seen;
    const std::size_t first = step.bucket->first, end = first + size,
                      lead = lead_of(step, size, block), begin = first - lead,
                      behind = std::min(block - 1 - (end - 1) % block, array.size - end);
    const RowReader part{end + behind - begin,
                         [read = array.read, begin](std::size_t at, std::size_t count) {
                             return read(begin + at, count);
                         }};
    return {part, lead, blocks_up_to(end, block) - blocks_up_to(first, block), first == 0,
            end == array.size};
}

void crop(Message& m, std::size_t lead, std::size_t count) {
    const auto cut = [&](auto& row) {
        if (row.empty()) return;
        if (lead != 0)
            std::copy_n(row.begin() + static_cast<std::ptrdiff_t>(lead), count, row.begin());
        row.resize(count);
    };
    cut(m.values);
    cut(m.bias);
    cut(m.variance);
    cut(m.saturated);
}

}  // namespace apscope::detail
