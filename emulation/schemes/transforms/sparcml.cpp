// sparcml: the largest elements of each worker, added as sparse streams that may become dense.
//
// A stream has a number of elements and, for each, its index and its fp32 value; with all n
// elements of the tensor it is dense and has no indices. The sum of two streams is dense if
//
//      (count1 + count2) (index bits + 32) >= 32 n
//
// and else the list of the elements of both, in the order of the indices.
//
// recursive_doubling: P = the largest power of two <= W. Of the first 2 (W - P) workers, each even
// one sends its stream to the next one, and gets the result at the end. The P workers left exchange
// their streams at the distances 1, 2, 4, ... Below distance 2^T, each adds the stream that it
// gets; at the other distances all values are sent: from the largest distance on, partners add one
// half each of what they have left; then, from the smallest on, they send each other what they
// have added.
//
//      T = max(1, floor(log2(n / (3 k d))))     d = floor((index bits + 32) / 32)
//
// split: worker r adds the r-th of W equal parts of the tensor (the last has the rest, too): its
// own elements, then those of workers r - 1, r - 2, ... (mod W), and sends all values of the sum to
// all others.
#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <utility>

#include "core/bits.h"
#include "emulation/schemes/codecs/bits.h"
#include "emulation/schemes/codecs/sparse.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

namespace {

enum class Algorithm { recursive_doubling, split };

// What the workers compute in a step.
struct Exchanged {
    Row sizes, indices;  // the cutoff of each worker's elements
    Row bits;            // the number of bits that each worker sends
    Rows payloads;       // their bytes, if messages are packed
    Row sum;

    void fields(Fields& f) {
        f.row("sizes", sizes);
        f.row("indices", indices);
        f.row("bits", bits);
        f.rows("payloads", payloads);
        f.row("sum", sum);
    }
};

using Values = Buffer<float>;

// The elements of a stream, in a row with 0 at all other elements.
struct Stream {
    Values values;
    Buffer<std::size_t> indices;  // if not dense
    bool is_dense = false;

    std::size_t count() const { return is_dense ? values.size() : indices.size(); }
    template <class Visit>
    void each(Visit&& visit) const {
        if (is_dense) {
            for (std::size_t i = 0; i < values.size(); ++i) visit(i);
        } else {
            for (const std::size_t i : indices) visit(i);
        }
    }
};

void put_value(BitWriter& bits, float value) { bits.put(bits_cast<std::uint32_t>(value), 32); }

void put_values(BitWriter& bits, std::span<const float> values) {
    for (const float value : values) put_value(bits, value);
}

void put_stream(BitWriter& bits, const Stream& stream, int width) {
    bits.put(stream.count(), 32);
    stream.each([&](std::size_t i) {
        if (!stream.is_dense) bits.put(i, width);
        put_value(bits, stream.values[i]);
    });
}

Stream sum_of(const Stream& a, const Stream& b, int width) {
    const std::size_t n = a.values.size(), pair = 32 + static_cast<std::size_t>(width);
    Stream sum;
    sum.values.resize(n);
    for (std::size_t i = 0; i < n; ++i) sum.values[i] = a.values[i] + b.values[i];
    sum.is_dense = (a.count() + b.count()) * pair >= 32 * n;
    if (!sum.is_dense)
        std::ranges::set_union(a.indices, b.indices, std::back_inserter(sum.indices));
    return sum;
}

// T, of n > 0 elements of which every worker sends about k.
int sparse_rounds(std::size_t n, std::size_t k, int width) {
    const std::size_t pair = (32 + static_cast<std::size_t>(width)) / 32;
    int rounds = 1;
    while (3 * k * pair << (rounds + 1) <= n) ++rounds;
    return rounds;
}

struct SparCML {
    double keep;
    Algorithm algorithm;

    // The streams become the workers' sum, the same for all.
    Values doubled(std::vector<Stream>& streams, std::vector<BitWriter>& sent) const {
        const std::size_t n = streams[0].values.size(), size = std::bit_floor(streams.size()),
                          paired = 2 * (streams.size() - size);
        const int width = place_bits(n, false);
        std::vector<std::size_t> workers;  // the P workers
        for (std::size_t w = 0; w < streams.size(); ++w) {
            if (w >= paired || w % 2 != 0) workers.push_back(w);
            if (w >= paired || w % 2 == 0) continue;
            put_stream(sent[w - 1], streams[w - 1], width);
            streams[w] = sum_of(streams[w], streams[w - 1], width);
        }
        const std::size_t dense_from = std::size_t{1}
                                       << std::min(sparse_rounds(n, kept_of(n, keep), width), 62);
        std::size_t distance = 1;
        for (; distance < std::min(size, dense_from); distance *= 2) {
            for (std::size_t v = 0; v < size; ++v) {
                if ((v & distance) != 0) continue;
                Stream &one = streams[workers[v]], &other = streams[workers[v ^ distance]];
                put_stream(sent[workers[v]], one, width);
                put_stream(sent[workers[v ^ distance]], other, width);
                one = other = sum_of(one, other, width);
            }
        }
        Stream& result = streams[workers[0]];
        if (distance < size) {
            result.values = halved(streams, workers, distance, sent);
            result.is_dense = true;
        }
        for (std::size_t w = 1; w < paired; w += 2) put_stream(sent[w], result, width);
        return std::move(result.values);
    }

    // The dense rounds, at the distances from `least` on.
    static Values halved(std::vector<Stream>& streams, const std::vector<std::size_t>& workers,
                         std::size_t least, std::vector<BitWriter>& sent) {
        const std::size_t size = workers.size(), n = streams[0].values.size();
        struct Part {
            std::size_t begin, end;
        };
        std::vector<Part> parts(size, {0, n});
        const auto values = [&](std::size_t v) -> Values& { return streams[workers[v]].values; };
        const auto put = [&](std::size_t v, Part part) {
            put_values(sent[workers[v]],
                       std::span(values(v)).subspan(part.begin, part.end - part.begin));
        };
        for (std::size_t distance = size / 2; distance >= least; distance /= 2) {
            for (std::size_t v = 0; v < size; ++v) {
                if ((v & distance) != 0) continue;
                const std::size_t other = v ^ distance;
                const auto [begin, end] = parts[v];
                const std::size_t middle = begin + (end - begin) / 2;
                put(v, {middle, end});
                put(other, {begin, middle});
                for (std::size_t i = begin; i < end; ++i)
                    values(v)[i] = values(other)[i] = values(v)[i] + values(other)[i];
                parts[v] = {begin, middle};
                parts[other] = {middle, end};
            }
        }
        for (std::size_t distance = least; distance < size; distance *= 2) {
            const std::vector<Part> before = parts;
            for (std::size_t v = 0; v < size; ++v) {
                const Part own = before[v], got = before[v ^ distance];
                put(v, own);
                std::copy(values(v ^ distance).begin() + static_cast<std::ptrdiff_t>(got.begin),
                          values(v ^ distance).begin() + static_cast<std::ptrdiff_t>(got.end),
                          values(v).begin() + static_cast<std::ptrdiff_t>(got.begin));
                parts[v] = {std::min(own.begin, got.begin), std::max(own.end, got.end)};
            }
        }
        return values(0);
    }

    static Values split(const std::vector<Stream>& streams, std::vector<BitWriter>& sent) {
        const std::size_t workers = streams.size(), n = streams[0].values.size(),
                          length = n / workers;
        const int width = place_bits(n, false);
        const auto end_of = [=](std::size_t r) { return r + 1 == workers ? n : (r + 1) * length; };
        Values sum(n, 0.0f);
        for (std::size_t r = 0; r < workers; ++r) {
            const std::size_t begin = r * length, end = end_of(r);
            for (std::size_t round = 0; round < workers; ++round) {
                const std::size_t w = (r + workers - round) % workers;
                const auto& indices = streams[w].indices;
                for (auto i = std::ranges::lower_bound(indices, begin);
                     i != indices.end() && *i < end; ++i) {
                    sum[*i] += streams[w].values[*i];
                    if (w == r) continue;
                    sent[w].put(*i, width);
                    put_value(sent[w], streams[w].values[*i]);
                }
            }
        }
        for (std::size_t r = 0; r < workers; ++r)
            for (std::size_t other = 1; other < workers; ++other)
                put_values(sent[r], std::span(sum).subspan(r * length, end_of(r) - r * length));
        return sum;
    }

    // Computes the sum and the bytes, because select() gets the rows of all workers.
    Parameters select(const Selection& s) const {
        Parameters theta;
        Exchanged& e = theta.extra.of<Exchanged>();
        std::vector<Stream> streams;
        for (const RowReader& row : s.rows) {
            const std::size_t n = row.size;
            const Cutoff cutoff = cutoff_of_magnitudes(row, kept_of(n, keep));
            e.sizes.push_back(cutoff.size);
            e.indices.push_back(cutoff.index);
            const std::span<const double> x = row.read(0, n);
            Stream& stream = streams.emplace_back();
            stream.values.resize(n, 0.0f);
            for (std::size_t i = 0; i < n; ++i) {
                if (!cutoff.keeps(std::abs(x[i]), i) || static_cast<float>(x[i]) == 0.0f) continue;
                stream.values[i] = static_cast<float>(x[i]);
                stream.indices.push_back(i);
            }
            stream.is_dense = stream.indices.size() == n;
        }
        std::vector<BitWriter> sent(streams.size(), BitWriter(s.step.packs));
        Values sum;
        if (streams[0].values.empty()) sum = {};
        else if (algorithm == Algorithm::split) sum = split(streams, sent);
        else sum = doubled(streams, sent);
        e.sum.assign(sum.begin(), sum.end());
        for (BitWriter& bits : sent) {
            e.bits.push_back(static_cast<double>(bits.bits()));
            const std::vector<std::uint8_t> bytes = bits.take();
            if (s.step.packs) e.payloads.emplace_back(bytes.begin(), bytes.end());
        }
        return theta;
    }

    // The number of messages that a worker of the P, with a partner besides, sends.
    int messages(int workers, double values) const {
        if (algorithm == Algorithm::split) return 2 * (workers - 1);
        const auto n = static_cast<std::size_t>(values);
        const int rounds = static_cast<int>(std::bit_width(static_cast<unsigned>(workers))) - 1,
                  sparse = n == 0 ? rounds
                                  : std::min(rounds, sparse_rounds(n, kept_of(n, keep),
                                                                   place_bits(n, false)));
        const int paired = std::has_single_bit(static_cast<unsigned>(workers)) ? 0 : 2;
        return sparse + 2 * (rounds - sparse) + paired;
    }
};

void encode(const RowPiece& p, Message& m) {
    const Exchanged& e = p.theta.of<Exchanged>();
    const Cutoff cutoff{e.sizes.at(p.worker), e.indices.at(p.worker)};
    m.prepare(p.x.size(), false, false);
    for (std::size_t i = 0; i < p.x.size(); ++i)
        m.values[i] = cutoff.keeps(std::abs(p.x[i]), i) ? static_cast<float>(p.x[i]) : 0.0;
    m.payload_bits = static_cast<std::uint64_t>(e.bits.at(p.worker));
    if (!p.packs()) return;
    const Row& bytes = e.payloads.at(p.worker);
    m.payload.assign(bytes.begin(), bytes.end());
}

SchemeParts parts_of(const SchemeArguments& arguments) {
    constexpr std::array<std::string_view, 2> algorithms{"recursive_doubling", "split"};
    const SparCML how{arguments.number("keep", 1e-9, 1.0),
                      arguments.one_of<Algorithm>("algorithm", algorithms)};
    return {.grid = "sparse:fp32",
            .topology = std::string(reductions::streams),
            .transport = {.messages = [how](int workers,
                                            double n) { return how.messages(workers, n); }},
            .run = whole_row,
            .choice = {.select = [how](const Selection& s) { return how.select(s); }},
            .encoding = {
                .encode = encode,
                .reduce = [](const SentPieces& s, Row& sum) { sum = s.theta.of<Exchanged>().sum; },
                .mixes_elements = true}};
}

}  // namespace

SchemeDefinition sparcml_definition() {
    return {.class_name = "SparCML",
            .summary = "the largest magnitudes with their places, added in fp32 as sparse streams "
                       "that become dense",
            .source = "Renggli et al., SparCML, SC 2019 (arXiv:1802.08021)",
            .needs = "gradients",
            .keys = {{"keep", "0.01", "share of the elements that a worker adds"},
                     {"algorithm", "recursive_doubling",
                      "of the all-reduce: recursive_doubling, or split for many elements"}},
            .build = parts_of};
}

}  // namespace apscope::detail
