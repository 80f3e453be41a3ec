// Puts what has changed in its place. Pages are made by the program; this only listens, counts ages, and filters.
'use strict';
(() => {
  const rows = document.getElementById('rows');
  const filter = document.getElementById('filter');

  const spoken = seconds => {
    const s = Math.max(0, Math.floor(seconds)), m = Math.floor(s / 60), h = Math.floor(m / 60), d = Math.floor(h / 24);
    if (d > 0) return `${d}d${h % 24}h`;
    if (h > 0) return `${h}h${m % 60}m`;
    if (m > 9) return `${m}m`;
    if (m > 0) return `${m}m${s % 60}s`;
    return `${s}s`;
  };
  const count = () => {
    for (const time of document.querySelectorAll('time[data-age]')) {
      const text = spoken((Date.now() - Date.parse(time.dateTime)) / 1000);
      if (time.textContent !== text) time.textContent = text;
    }
  };

  const sift = () => {
    if (!rows) return;
    const wanted = filter.value.trim().toLowerCase();
    let found = 0;
    for (const row of rows.children) {
      row.hidden = wanted !== '' && !row.textContent.toLowerCase().includes(wanted);
      if (!row.hidden) found++;
    }
    document.getElementById('found').textContent = wanted === '' ? '' : `${found} of ${rows.children.length}`;
  };

  const announce = (id, before, after) => {
    const word = element => element?.querySelector('.verdict')?.textContent ?? '';
    if (before && word(after) !== before) {
      document.getElementById('announce').textContent = `${id} is ${word(after)}`;
    }
    return word(after);
  };
  const verdicts = new Map();

  const place = change => {
    const focused = document.activeElement?.id;
    for (const [id, html] of Object.entries(change.html)) {
      let element = document.getElementById(id);
      if (!element && rows) {
        element = document.createElement('tr');
        element.id = id;
        rows.append(element);
      }
      if (!element || element.contains(document.activeElement) && document.activeElement.tagName === 'SELECT') continue;
      element.innerHTML = html;
      if (element.querySelector('.verdict')) verdicts.set(id, announce(id, verdicts.get(id), element));
    }
    if (change.rows && rows) {
      const wanted = new Set(change.rows);
      for (const row of [...rows.children]) if (!wanted.has(row.id)) row.remove();
      change.rows.forEach((id, at) => {
        const row = document.getElementById(id);
        if (row && rows.children[at] !== row) rows.insertBefore(row, rows.children[at] ?? null);
      });
    }
    count();
    sift();
    // The cursor stays where it was, though what it was on is another element now.
    if (focused && document.activeElement?.id !== focused) document.getElementById(focused)?.focus({preventScroll: true});
    document.documentElement.dataset.live = 'yes';
  };

  filter?.addEventListener('input', sift);
  document.addEventListener('keydown', event => {
    const typing = ['INPUT', 'SELECT'].includes(document.activeElement?.tagName);
    if (event.key === '/' && !typing && filter) {
      event.preventDefault();
      filter.focus();
    } else if (event.key === 'Escape') {
      if (typing && filter) { filter.value = ''; sift(); filter.blur(); }
      else document.getElementById('back')?.click();
    } else if (rows && ['ArrowDown', 'ArrowUp'].includes(event.key) && document.activeElement?.tagName !== 'SELECT') {
      const links = [...rows.querySelectorAll('tr:not([hidden]) a')];
      const at = links.indexOf(document.activeElement) + (event.key === 'ArrowDown' ? 1 : -1);
      if (links.length > 0) {
        event.preventDefault();
        links[Math.min(Math.max(at, 0), links.length - 1)].focus();
      }
    }
  });

  if (document.querySelector('[role=status]')) {
    const source = new EventSource('/events' + location.pathname.replace(/\/$/, ''));
    source.onmessage = message => place(JSON.parse(message.data));
    source.onerror = () => { document.documentElement.dataset.live = 'lost'; };
  }
  setInterval(count, 1000);
})();
