// Runs before the first paint, so that a reader of the dark theme never sees a white flash.
(function () {
  let choice;
  try {
    choice = localStorage.getItem('daapu.theme');
  } catch {
    choice = null; // storage switched off: follow the system
  }
  const dark =
    choice === 'dark' || (choice !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches);
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
})();
