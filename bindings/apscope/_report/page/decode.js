// The rows of a replay out of the compressed text that report/payload.py made.

const ARRAYS = {
  u1: Uint8Array,
  u2: Uint16Array,
  u4: Uint32Array,
  f4: Float32Array,
  f8: Float64Array,
};

// Bytes of base64 text.
function bytesOf(base64) {
  const text = base64.trim();
  return Uint8Array.fromBase64
    ? Uint8Array.fromBase64(text)
    : Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

export async function gunzip(base64) {
  const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// {tables: {name: {length, column: values, ...}}, ...}: text columns are {codes, levels}; an empty
// number is NaN.
export async function decode(base64) {
  const bytes = await gunzip(base64);
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  let at = 4 + length;
  const tables = {};
  for (const [name, about] of Object.entries(header.tables)) {
    const table = (tables[name] = { length: about.length });
    for (const column of about.columns) {
      const Kind = ARRAYS[column.type];
      const end = at + about.length * Kind.BYTES_PER_ELEMENT;
      table[column.name] = values(unshuffled(bytes.subarray(at, end), about.length, Kind), column);
      at = end;
    }
  }
  return { ...header, tables };
}

function unshuffled(bytes, length, Kind) {
  const size = Kind.BYTES_PER_ELEMENT;
  if (size === 1) return bytes;
  const out = new Uint8Array(length * size);
  for (let b = 0; b < size; b++) {
    for (let i = 0, from = b * length, to = b; i < length; i++, from++, to += size)
      out[to] = bytes[from];
  }
  return new Kind(out.buffer);
}

function values(stored, { levels, first, gaps, shift }) {
  if (levels) return { codes: stored, levels };
  if (gaps) return Float64Array.from(stored, (code) => (code ? code - 1 + first : NaN));
  if (first) return Float64Array.from(stored, (code) => code + first);
  return shift ? Float64Array.from(stored, (x) => x * 2 ** -shift) : stored;
}
