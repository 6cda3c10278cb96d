// Numbers and names for reading.

export const raised = (power) => String(power).replace(/./g, (c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] ?? "⁻");

// As figure() of _page/numbers.py: significant digits, powers of ten written out, a dash for none.
export function figure(value, digits = 3) {
  if (value == null || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
  const power = Number(exponent);
  const text =
    power > -4 && power < 6
      ? value.toFixed(Math.max(digits - 1 - power, 0))
      : `${mantissa} × 10${raised(power)}`;
  return text.replace("-", "−");
}

// As nmse() of _page/numbers.py: an NMSE is infinite where values overflowed.
export const nmseText = (value) => (value === Infinity ? "overflow" : figure(value));

// A share in percent; one that is not 0 never reads as 0, one that is not all never as 100.
export function percent(rate) {
  if (rate == null || Number.isNaN(rate)) return "–";
  const p = 100 * Math.abs(rate),
    sign = rate < 0 ? "−" : "";
  if (p === 0) return "0 %";
  if (p < 0.005) return "< 0.01 %"; // of either sign
  if (p >= 99.5 && p < 100) return `${sign}${p >= 99.995 ? "> 99.99" : p.toFixed(2)} %`;
  return `${sign}${p < 1 ? p.toFixed(2) : p < 10 ? p.toFixed(1) : p.toFixed(0)} %`;
}

// Seconds, in s, ms or µs.
export function seconds(value) {
  if (value == null || Number.isNaN(value)) return "–";
  if (value >= 1) return `${figure(value)} s`;
  return value >= 1e-3 ? `${figure(value * 1e3)} ms` : `${figure(value * 1e6)} µs`;
}

// How many times as large: 0.25 reads "4.0× less".
export function times(ratio) {
  if (ratio == null || Number.isNaN(ratio)) return "–";
  if (ratio === 1) return "equal";
  return ratio < 1 ? `${figure(1 / ratio, 2)}× less` : `${figure(ratio, 2)}× more`;
}

// A name that fits: a long one keeps its beginning and its end.
export function clip(name, longest = 42) {
  const letters = [...name];
  if (letters.length <= longest) return name;
  const end = letters.slice(-Math.floor(longest * 0.4)).join("");
  return `${letters.slice(0, Math.ceil(longest * 0.55)).join("")}…${end}`;
}

// A name that fits: a long one is cut at the front, as by short_names() of _text.py.
export function tail(name, longest) {
  const letters = [...name];
  return letters.length <= longest ? name : `…${letters.slice(1 - longest).join("")}`;
}
