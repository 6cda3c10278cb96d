// The errors of one row, and of several rows added up: docs/definitions.md, section 14. A skipped
// row is a lost gradient: y = 0.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>

#include "analysis/statistics/quotients.h"
#include "analysis/summary/row_table.h"
#include "core/fixed_exp2.h"

namespace apscope::detail {

inline double or_zero(double value) { return std::isnan(value) ? 0.0 : value; }

// A sum of the values that are not empty; NaN if all are empty.
class PresentSum {
public:
    void add(double value) {
        if (std::isnan(value)) return;
        sum_ += value;
        any_ = true;
    }
    double value() const { return any_ ? sum_ : missing; }

private:
    double sum_ = 0.0;
    bool any_ = false;
};

struct Loss {
    // Sums of the squared errors and of the squared references; numbers of pairs with overflow, and
    // of skipped rows.
    double error = 0, reference = 0, overflow = 0, skipped = 0;
    double noise = 0, log2_over_noise = 0, noise_blocks = 0;  // NaN if the noise is unknown
    // The sum of x y, and the sum over the rows of the squared error orthogonal to x; NaN in tables
    // without the column `sum_product`.
    double product = 0, orthogonal = 0;

    void add(const Loss& other) {
        error += other.error;
        reference += other.reference;
        overflow += other.overflow;
        skipped += other.skipped;
        noise += other.noise;
        log2_over_noise += other.log2_over_noise;
        noise_blocks += other.noise_blocks;
        product += other.product;
        orthogonal += other.orthogonal;
    }
    // False if the reference is zero and nothing overflowed. A row that was not measured has a
    // loss, which is NaN.
    bool exists() const { return overflow > 0 || reference != 0; }
    double nmse() const { return nmse_of_sums(error, reference, overflow); }
    // The NMSE by which schemes are ranked: at least 1 with overflow instead of infinite, so that
    // its mean over steps exists. NaN if there is no loss.
    double ranking_nmse() const {
        const double value = quotient(error, reference);
        return overflow > 0 ? std::fmax(value, 1.0) : value;
    }
    double pooled_over_noise() const { return infinite_with(overflow, quotient(error, noise)); }
    // The part of the reference that arrives: the factor of x in y. Missing with overflow, because
    // the sums omit the lost part.
    double gain() const { return overflow > 0 ? missing : quotient(product, reference); }
    // The distance of the gain from 1; a result that overflows loses everything.
    double lost_gain() const { return overflow > 0 ? 1.0 : std::fabs(1.0 - gain()); }
    // True if less than half of the reference arrives. In tables without products the gain is NaN,
    // so their layers do not count as lost.
    bool is_lost() const { return overflow > 0 || gain() < 0.5; }
    double orthogonal_over_noise() const {
        return infinite_with(overflow, quotient(orthogonal, noise));
    }
    // The geometric mean over the blocks of the error over the noise.
    double over_noise() const { return fixed_exp2(quotient(log2_over_noise, noise_blocks)); }
};

// The losses of the rows of a table.
class RowLosses {
public:
    explicit RowLosses(const RowTable& table)
        : table_(table), error_(table[NumberColumn::sum_squared_error]),
          reference_(table[NumberColumn::sum_squared_reference]),
          signed_error_(table[NumberColumn::sum_signed_error]),
          absolute_(table[NumberColumn::sum_absolute_reference]),
          overflow_(table[NumberColumn::overflow]), noise_(table[NumberColumn::sum_noise]),
          log2_(table[NumberColumn::sum_log2_error_over_noise]),
          blocks_(table[NumberColumn::noise_blocks]),
          product_(table.numbers[static_cast<std::size_t>(NumberColumn::sum_product)]) {}

    Loss operator[](std::size_t row) const {
        const bool skipped = table_.skipped[row];
        Loss loss{skipped ? reference_[row] : error_[row],
                  reference_[row],
                  or_zero(overflow_[row]),
                  skipped ? 1.0 : 0.0,
                  noise_[row],
                  log2_[row],
                  blocks_[row]};
        // Like the cosine, the product is 0 if the row was skipped or overflowed.
        loss.product = skipped || loss.overflow > 0     ? 0.0
                       : product_.size() == table_.rows ? product_[row]
                                                        : missing;
        const double along = loss.product - loss.reference;  // the sum of x e
        loss.orthogonal = loss.reference == 0
                              ? loss.error
                              : not_below_zero(loss.error - along * along / loss.reference);
        return loss;
    }
    double absolute(std::size_t row) const { return absolute_[row]; }
    double signed_error(std::size_t row) const {
        return table_.skipped[row] ? -absolute_[row] : signed_error_[row];
    }
    // The row's cosine; 0 for a row that was skipped, overflowed or is all zero.
    double cosine(std::size_t row, const Loss& loss, const Cells& cosine) const {
        if (table_.skipped[row] || loss.overflow > 0) return 0.0;
        return std::isnan(cosine[row]) && !std::isnan(loss.error) ? 0.0 : cosine[row];
    }

private:
    // Raises negative values to 0; a NaN stays a NaN.
    static double not_below_zero(double value) { return value < 0.0 ? 0.0 : value; }

    const RowTable& table_;
    Cells error_, reference_, signed_error_, absolute_, overflow_, noise_, log2_, blocks_, product_;
};

}  // namespace apscope::detail
