/// <reference types="vitest/config" />
import { fileURLToPath } from 'node:url';

import { svelte } from '@sveltejs/vite-plugin-svelte';
import tailwindcss from '@tailwindcss/vite';
import { defineConfig, type Plugin } from 'vite';

// The built page forbids inline scripts and anything from elsewhere, whatever headers the server sends.
// Not in development: hot reloading needs inline styles.
const policy = [
  "default-src 'self'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "connect-src 'self'",
  "font-src 'self'",
  "object-src 'none'",
  "base-uri 'none'",
  "form-action 'self'",
].join('; ');

function contentSecurityPolicy(): Plugin {
  return {
    name: 'content-security-policy',
    apply: 'build',
    transformIndexHtml: () => [
      {
        tag: 'meta',
        attrs: { 'http-equiv': 'Content-Security-Policy', content: policy },
        injectTo: 'head-prepend',
      },
    ],
  };
}

const slim = (name: string) =>
  fileURLToPath(new URL(`src/lib/markdown/slim/${name}.ts`, import.meta.url));

export default defineConfig({
  base: './',
  plugins: [svelte(), tailwindcss(), contentSecurityPolicy()],
  resolve: {
    ...(process.env['VITEST'] && { conditions: ['browser'] }),
    // Parts of the Markdown parser that the browser can do itself, or that are switched off: 20 kB less.
    alias: {
      entities: slim('entities'),
      'linkify-it': slim('linkify'),
      'punycode.js': slim('punycode'),
    },
  },
  build: {
    target: 'es2022',
    modulePreload: false,
    manifest: true,
    assetsInlineLimit: 0,
    // How long each plugin took tells a person who starts daapu nothing.
    rolldownOptions: { checks: { pluginTimings: false } },
  },
  server: { proxy: { '/api': process.env['DAAPU_URL'] ?? 'http://127.0.0.1:8080' } },
  test: {
    include: ['src/**/*.test.ts'],
    environment: 'jsdom',
    setupFiles: ['./src/test-setup.ts'],
    pool: 'threads',
    sequence: { shuffle: true },
    restoreMocks: true,
  },
});
