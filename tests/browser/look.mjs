// Looks at pages in headless Chromium and prints what it saw as JSON; what is good enough is decided by the tests.
// node look.mjs '{"chromium": "/usr/bin/chromium", "pages": ["/tmp/week.html"], "lighthouse": true}'
import { createServer } from "node:http";
import { readFileSync, statSync } from "node:fs";
import { basename } from "node:path";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import axe from "axe-core";
import puppeteer from "puppeteer-core";

const WIDE = { width: 1280, height: 900 };
const NARROW = { width: 400, height: 900 };
const asked = JSON.parse(process.argv[2]);

// One tab with one setting; `told` gathers everything that a quiet page does not do.
async function opened(browser, path, { viewport = WIDE, scheme = "light", script = true } = {}) {
  const tab = await browser.newPage();
  const told = { console: [], requests: [], dialogs: 0 };
  tab.on("console", (message) => told.console.push(message.text()));
  tab.on("pageerror", (error) => told.console.push(String(error)));
  tab.on("request", (request) => told.requests.push(request.url()));
  tab.on("dialog", (dialog) => { told.dialogs += 1; dialog.dismiss(); });
  await tab.setViewport(viewport);
  await tab.setJavaScriptEnabled(script);
  await tab.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await tab.goto(pathToFileURL(path).href, { waitUntil: "load" });
  told.requests = told.requests.slice(1); // the page itself
  return { tab, told };
}

const words = (tab) => tab.evaluate(() => document.body.innerText);

async function violations(tab) {
  await tab.evaluate(axe.source);
  const found = await tab.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return found.violations.flatMap((v) => v.nodes.map((n) => `${v.id} (${v.impact}): ${n.html.slice(0, 160)}`));
}

async function lookAt(browser, path) {
  const seen = { bytes: statSync(path).size, axe: {}, console: [], requests: [], dialogs: 0 };
  const texts = {};
  for (const scheme of ["light", "dark"]) {
    for (const [size, viewport] of [["wide", WIDE], ["narrow", NARROW]]) {
      const { tab, told } = await opened(browser, path, { viewport, scheme });
      if (size === "narrow") seen.page_px = await tab.evaluate(() => document.documentElement.scrollWidth);
      if (size === "wide") texts.with = await words(tab);
      seen.console.push(...told.console);
      seen.requests.push(...told.requests);
      seen.dialogs += told.dialogs;
      seen.axe[`${size} ${scheme}`] = await violations(tab);
      await tab.close();
    }
  }
  const { tab } = await opened(browser, path, { script: false });
  texts.without = await words(tab);
  seen.same_without_script = texts.with === texts.without;
  seen.words = texts.without.length;
  seen.colours = await tab.evaluate(() => ["light", "dark"].map((scheme) => {
    document.documentElement.style.colorScheme = scheme;
    return getComputedStyle(document.body).backgroundColor;
  }));
  await tab.keyboard.press("Tab");
  seen.first_focus = await tab.evaluate(() => document.activeElement.getAttribute("href"));
  await tab.emulateMediaType("print");
  // Every folded table is unfolded on paper: what it holds takes room there.
  seen.folded_on_paper = await tab.evaluate(
    () => [...document.querySelectorAll("details > :not(summary)")].filter((e) => !e.getBoundingClientRect().height).length,
  );
  await tab.close();
  return seen;
}

// Lighthouse reads no files: the page is served from this machine, compressed as web servers do, and nothing else is.
async function scores(browser, lighthouse, path) {
  const server = createServer((request, answer) => {
    const page = request.url === "/";
    answer.writeHead(page ? 200 : 204, { "Content-Type": "text/html; charset=utf-8", "Content-Encoding": "gzip" });
    answer.end(page ? gzipSync(readFileSync(path)) : undefined);
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  const tab = await browser.newPage();
  const options = { onlyCategories: ["accessibility", "performance"], logLevel: "error" };
  const { lhr } = await lighthouse(`http://127.0.0.1:${server.address().port}/`, options, undefined, tab);
  await tab.close();
  server.close();
  const metrics = Object.fromEntries(["first-contentful-paint", "largest-contentful-paint", "total-blocking-time", "speed-index", "cumulative-layout-shift"].map((id) => [id, lhr.audits[id].displayValue]));
  const failed = Object.values(lhr.audits).filter((a) => a.score !== null && a.score < 0.9).map((a) => a.id);
  return { accessibility: lhr.categories.accessibility.score, performance: lhr.categories.performance.score, metrics, failed };
}

const browser = await puppeteer.launch({
  executablePath: asked.chromium,
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});
const found = { pages: {}, lighthouse: {}, no_lighthouse: "" };
if (!asked.lighthouse) for (const path of asked.pages) found.pages[basename(path)] = await lookAt(browser, path);
if (asked.lighthouse) {
  try {
    const { default: lighthouse } = await import("lighthouse");
    for (const path of asked.pages) found.lighthouse[basename(path)] = await scores(browser, lighthouse, path);
  } catch (error) {
    if (!["ERR_MODULE_NOT_FOUND", "ERR_UNSUPPORTED_DIR_IMPORT"].includes(error.code) && !(error instanceof SyntaxError)) throw error;
    found.no_lighthouse = `lighthouse cannot be loaded in Node ${process.versions.node}: ${error.message}`;
  }
}
await browser.close();
console.log(JSON.stringify(found));
