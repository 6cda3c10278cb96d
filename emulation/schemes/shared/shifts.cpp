#include "emulation/schemes/shared/shifts.h"

#include <algorithm>

#include "emulation/schemes/shared/headroom.h"

namespace apscope::detail {

int ShiftRule::own(double amax, int workers) const {
    if (amax == 0.0) return 0;
    const double counted = std::max(amax, 0x1p-126);
    if (tight) return largest_shift_within(counted, workers, headroom, format.largest());
    return format.emax() - exponent_with_headroom(counted, workers, headroom);
}

int ShiftRule::next(double amax, int workers, double& last, double& run) const {
    const bool known = run > 0.0;
    if (frozen > 0 && run >= static_cast<double>(frozen)) return static_cast<int>(last);
    const int before = static_cast<int>(last), now = own(amax, workers);
    if (amax != 0.0) {
        run = known && before == now ? run + 1.0 : 1.0;
        last = now;
    }
    return delayed && known ? before : now;
}

}  // namespace apscope::detail
