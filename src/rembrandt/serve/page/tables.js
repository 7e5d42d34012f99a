// Texts from files, and answers as files.
const TEXT_NAMES = ["text", "title", "abstract", "description", "body", "question", "content"];
const DELIMITERS = [",", ";", "\t"];
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** The rows of a file: objects with named cells; plain lines have the one column `text`. */
export function parseFile(name, content) {
  const text = content.replace(/^\ufeff/, "");
  const suffix = name.toLowerCase().split(".").pop();
  if (suffix === "csv") return withColumns(delimited(text, detectDelimiter(text)));
  if (suffix === "tsv" || suffix === "tab") return withColumns(text.split(/\r?\n/).filter(Boolean).map((line) => line.split("\t")));
  if (suffix === "jsonl" || suffix === "ndjson") return jsonRows(text);
  return lines(text);
}

/** One text per line. */
export function lines(content) {
  const rows = content.split(/\r?\n/).filter((line) => line.trim()).map((text) => ({ text: text.trim() }));
  return { columns: ["text"], rows };
}

/** The column that is most likely the text: by its name, or else the longest. */
export function textColumn({ columns, rows }) {
  const lower = columns.map((column) => column.toLowerCase());
  const named = TEXT_NAMES.find((name) => lower.includes(name));
  if (named) return columns[lower.indexOf(named)];
  const length = (column) => rows.slice(0, 100).reduce((sum, row) => sum + (row[column] ?? "").length, 0);
  return [...columns].sort((a, b) => length(b) - length(a))[0];
}

function withColumns([columns = [], ...cells]) {
  const rows = cells.map((row) => Object.fromEntries(columns.map((column, i) => [column, row[i] ?? ""])));
  return { columns, rows };
}

function jsonRows(content) {
  const columns = new Set();
  const rows = [];
  content.split("\n").forEach((line, i) => {
    if (!line.trim()) return;
    let row;
    try {
      row = JSON.parse(line);
    } catch {
      throw new Error(`Line ${i + 1} is not JSON; expected one object per line.`);
    }
    const texts = Object.entries(row ?? {}).filter(([, value]) => typeof value === "string");
    texts.forEach(([column]) => columns.add(column));
    rows.push(Object.fromEntries(texts));
  });
  return { columns: [...columns], rows };
}

function detectDelimiter(content) {
  const header = content.split(/\r?\n/, 1)[0];
  const width = (delimiter) => delimited(header, delimiter)[0]?.length ?? 0;
  return DELIMITERS.reduce((best, delimiter) => (width(delimiter) > width(best) ? delimiter : best));
}

/** The cells of CSV: a cell in quotes may hold delimiters, line ends, and quotes written twice. */
function delimited(content, delimiter) {
  const rows = [];
  let row = [];
  let cell = "";
  let quoted = false;
  const endRow = () => {
    row.push(cell);
    if (row.length > 1 || row[0] !== "") rows.push(row);
    row = [];
    cell = "";
  };
  for (let i = 0; i < content.length; i++) {
    const letter = content[i];
    if (quoted) {
      if (letter !== '"') cell += letter;
      else if (content[i + 1] === '"') cell += content[++i];
      else quoted = false;
    } else if (letter === '"' && cell === "") quoted = true;
    else if (letter === delimiter) {
      row.push(cell);
      cell = "";
    } else if (letter === "\n") endRow();
    else if (letter !== "\r") cell += letter;
  }
  endRow();
  return rows;
}

/** A text that a spreadsheet shows and does not run as a formula. */
export const harmless = (text) => (/^[=+\-@\t\r]/.test(text) && !NUMBER.test(text) ? `'${text}` : text);

const csvCell = (text) => {
  const shown = harmless(text);
  return /[",\r\n]/.test(shown) ? `"${shown.replaceAll('"', '""')}"` : shown;
};

export const csv = (rows) => rows.map((row) => `${row.map(csvCell).join(",")}\r\n`).join("");

/** Let the browser save a file. */
export function download(name, type, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export async function copy(text) {
  if (navigator.clipboard && isSecureContext) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = document.createElement("textarea"); // pages without TLS have no clipboard
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
