// Shares in per cent, for the report and for the page of the service; the same rules as in rembrandt.metrics.percent.

/** A share in per cent. Rounding never turns it into 100 % or 0 % if it is not that; a missing one is a dash. */
export function percent(share, digits = 1) {
  if (share === null || share === undefined || !Number.isFinite(share)) return "–";
  let text = (100 * share).toFixed(digits);
  if (share < 1 && Number(text) >= 100) text = `>${(100 - 10 ** -digits).toFixed(digits)}`;
  else if (share > 0 && Number(text) <= 0) text = `<${(10 ** -digits).toFixed(digits)}`;
  return `${text}\u00a0%`;
}
