// Computes the attention from its factors: rows on request, the whole matrix in blocks.
"use strict";
LRGA.attention = (() => {
  const WHOLE = 1000; // nodes up to which every entry is shown
  const BLOCKS = 500;

  function numbers(text, Kind) {
    const raw = atob(text);
    const bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    return new Kind(bytes.buffer);
  }

  // Decoded on first use.
  function factors(head) {
    if (!head.decoded) head.decoded = { u: numbers(head.u, Float32Array), v: numbers(head.v, Float32Array) };
    return head.decoded;
  }

  // Row `node` of u·vᵀ, summed in double precision.
  function row(head, node, nodes, rank) {
    const { u, v } = factors(head);
    const result = new Float64Array(nodes);
    const from = node * rank;
    for (let j = 0, at = 0; j < nodes; j++) {
      let sum = 0;
      for (let k = 0; k < rank; k++, at++) sum += u[from + k] * v[at];
      result[j] = sum;
    }
    return result;
  }

  // Means of the rows of a factor over blocks of nodes: the mean of a block of u·vᵀ is the product of two such means.
  function blockMeans(factor, order, blocks, rank) {
    const means = new Float64Array(blocks * rank);
    for (let b = 0; b < blocks; b++) {
      const begin = Math.floor((b * order.length) / blocks);
      const end = Math.floor(((b + 1) * order.length) / blocks);
      for (let i = begin; i < end; i++) {
        for (let k = 0; k < rank; k++) means[b * rank + k] += factor[order[i] * rank + k] / (end - begin);
      }
    }
    return means;
  }

  function matrix(head, order, rank) {
    const { u, v } = factors(head);
    const blocks = order.length <= WHOLE ? order.length : BLOCKS;
    const a = blockMeans(u, order, blocks, rank);
    const b = blockMeans(v, order, blocks, rank);
    const rows = [];
    for (let i = 0; i < blocks; i++) {
      const line = new Float64Array(blocks);
      for (let j = 0; j < blocks; j++) {
        let sum = 0;
        for (let k = 0; k < rank; k++) sum += a[i * rank + k] * b[j * rank + k];
        line[j] = sum;
      }
      rows.push(line);
    }
    return rows;
  }

  return { numbers, row, matrix };
})();
