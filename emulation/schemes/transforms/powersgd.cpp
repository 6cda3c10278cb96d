// powersgd: the matrix M_w of worker w is sent as two thin factors, which add up over the workers.
//
//      P_w    = M_w Q                              with Q of the last step; random if that is 0
//      P      = orthonormal columns of sum of P_w  a column that vanishes becomes 0
//      Q_w    = M_w^T P
//      Q      = sum of Q_w / W                     for the next step
//      sent_w = P Q_w^T
//      y      = P (sum of Q_w)^T
//
// The rows of the matrix are the tensor's slices along the first axis. Tensors with fewer than two
// axes, and tensors whose factors would not be smaller, are sent as fp32 numbers. Factors are
// rounded to fp32 when they are sent; sums are computed in fp64, in a fixed order. The scheme with
// error feedback is error_feedback(powersgd:rank=2).
#include "core/bits.h"
#include "emulation/schemes/codecs/bits.h"
#include "emulation/schemes/codecs/statistics.h"
#include "emulation/schemes/codecs/thin_products.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

namespace {

struct Matrix {
    std::size_t rows, columns, rank;
    bool is_small;  // true: the factors would not be smaller than the matrix

    ThinShape shape() const { return {rows, columns, rank}; }

    explicit Matrix(const TrainingStep& step, std::size_t n, std::size_t most_rank)
        : rows(1), columns(n), rank(most_rank), is_small(true) {
        if (step.shape.size() < 2 || n == 0) return;
        rows = static_cast<std::size_t>(step.shape[0]);
        columns = n / rows;
        rank = std::min({most_rank, rows, columns});
        is_small = (rows + columns) * rank >= n;
    }
};

struct Memory {
    Row q;

    void fields(Fields& f) { f.row("q", q); }
};

struct Factors {
    Rows p_of_worker, q_of_worker;  // the factors that each worker sends
    Row p;
    int exponent = 0;  // the factors are those of 2^-exponent M

    void fields(Fields& f) {
        f.rows("p", p_of_worker);
        f.rows("q", q_of_worker);
        f.row("p", p);
        f.numbers("exponent", exponent);
    }
};

void round_to_fp32(Row& row) {
    for (double& v : row) v = static_cast<float>(v);
}

// A factor Q (columns x rank) of random numbers between -1 and 1.
Row random_factor(const TrainingStep& step, const Matrix& m) {
    const RandomStream stream = step.shared_stream(32);
    Row q(m.columns * m.rank);
    for (std::size_t i = 0; i < q.size(); ++i)
        q[i] = std::ldexp(static_cast<double>(stream.at(i) >> 32), -31) - 1.0;
    return q;
}

// Modified Gram-Schmidt on the columns of p (rows x rank); a column that vanishes becomes 0.
void orthonormalize(Row& p, const Matrix& m) {
    Row columns = thin_columns(p, m.rows, m.rank);
    const auto product = [n = m.rows](const double* a, const double* b) {
        return fixed_sum(n, [&](std::size_t i) { return a[i] * b[i]; });
    };
    for (std::size_t c = 0; c < m.rank; ++c) {
        double* column = &columns[c * m.rows];
        const double before = product(column, column);
        for (const double* other = columns.data(); other != column; other += m.rows) {
            const double along = product(other, column);
            for (std::size_t i = 0; i < m.rows; ++i) column[i] -= along * other[i];
        }
        const double left = product(column, column);
        const double factor = left > before * 0x1p-80 ? 1.0 / std::sqrt(left) : 0.0;
        for (std::size_t i = 0; i < m.rows; ++i) column[i] *= factor;
    }
    p = thin_from_columns(columns, m.rows, m.rank);
}

// Computes both factors, because a worker's Q_w depends on P, which is computed from the sum of all
// P_w, and the memory is a sum of all Q_w. Of a scheme's parts, only select() and forward() get the
// rows of all workers, and forward() must return rows to encode. So the factors are parameters.
Parameters select(const Selection& selection, std::size_t most_rank) {
    const auto& [step, state, x] = selection;
    const Matrix m(step, x[0].size, most_rank);
    Parameters theta;
    if (m.is_small) return theta;
    Row& q = state.of<Memory>().q;
    // With a factor Q of zeros, the factors of all later steps would be 0.
    if (q.size() != m.columns * m.rank || amax_of(q) == 0.0) q = random_factor(step, m);
    // Gradients are multiplied by 2^-exponent, so that products stay within the range of fp64.
    auto& [p_of_worker, q_of_worker, p, exponent] = theta.extra.of<Factors>();
    double amax = 0.0;
    for (const RowReader& row : x) amax = std::max(amax, amax_of(row));
    std::frexp(amax, &exponent);
    Row scaled;
    const auto scaled_row = [&](std::size_t worker) -> const Row& {
        const std::span<const double> row = x[worker].read(0, x[worker].size);
        scaled.assign(row.begin(), row.end());
        multiply_by_power(scaled, -exponent);
        return scaled;
    };
    p.assign(m.rows * m.rank, 0.0);
    for (std::size_t w = 0; w < x.size(); ++w) {
        Row& factor = p_of_worker.emplace_back(times_thin(scaled_row(w), q, m.shape()));
        round_to_fp32(factor);
        for (std::size_t i = 0; i < p.size(); ++i) p[i] += factor[i];
    }
    orthonormalize(p, m);
    Row next(q.size(), 0.0);
    for (std::size_t w = 0; w < x.size(); ++w) {
        Row& factor = q_of_worker.emplace_back(transposed_times_thin(scaled_row(w), p, m.shape()));
        round_to_fp32(factor);
        for (std::size_t i = 0; i < next.size(); ++i)
            next[i] += factor[i] / static_cast<double>(x.size());
    }
    q = std::move(next);
    return theta;
}

Row product_of(const Row& p, const Row& q, const Matrix& m, int exponent) {
    Row values = product_of_thin(p, q, m.shape());
    multiply_by_power(values, exponent);
    return values;
}

void encode(const RowPiece& p, std::size_t most_rank, Message& message) {
    const Matrix m(p.step, p.x.size(), most_rank);
    const Factors& factors = p.theta.of<Factors>();
    message.prepare(0, false, false);
    BitWriter bits;
    const auto put = [&](std::span<const double> numbers) {
        message.payload_bits += 32 * numbers.size();
        for (const double v : numbers) {
            if (p.packs()) bits.put(bits_cast<std::uint32_t>(static_cast<float>(v)), 32);
        }
    };
    if (m.is_small) {
        message.values.assign(p.x.begin(), p.x.end());
        round_to_fp32(message.values);
        put(message.values);
    } else {
        const Row& q = factors.q_of_worker.at(p.worker);
        message.values = product_of(factors.p, q, m, factors.exponent);
        put(factors.p_of_worker.at(p.worker));
        put(q);
    }
    if (p.packs()) message.payload = bits.take();
}

void add(const SentPieces& s, std::size_t most_rank, Row& sum) {
    const Matrix m(s.step, s.messages[0].values.size(), most_rank);
    if (m.is_small) return exact_sum(s.messages, sum);
    const Factors& factors = s.theta.of<Factors>();
    Row q(m.columns * m.rank, 0.0);
    for (const Row& factor : factors.q_of_worker) {
        for (std::size_t i = 0; i < q.size(); ++i) q[i] += factor[i];
    }
    sum = product_of(factors.p, q, m, factors.exponent);
}

}  // namespace

SchemeDefinition powersgd_definition() {
    return {.class_name = "PowerSGD",
            .summary = "a matrix as two thin factors, which are added over the workers; one power "
                       "iteration per step",
            .source = "Vogels et al., PowerSGD, NeurIPS 2019 (arXiv:1905.13727)",
            .needs = "gradients of consecutive steps",
            .keys = {{"rank", "2", "columns of the factors"}},
            .build = [](const SchemeArguments& arguments) -> SchemeParts {
                const auto rank = static_cast<std::size_t>(arguments.integer("rank", 1, 1 << 20));
                return {
                    .grid = "rank:" + std::to_string(rank),
                    .topology = std::string(reductions::linear),
                    .transport = {.rounds = 2},  // P, then Q
                    .run = whole_row,
                    .choice = {.select = [rank](const Selection& s) { return select(s, rank); }},
                    .memory = {.keeps = true},
                    .encoding = {
                        .encode = [rank](const RowPiece& p, Message& m) { encode(p, rank, m); },
                        .reduce = [rank](const SentPieces& s, Row& sum) { add(s, rank, sum); },
                        .is_exact_sum = true,
                        .mixes_elements = true}};
            }};
}

}  // namespace apscope::detail
