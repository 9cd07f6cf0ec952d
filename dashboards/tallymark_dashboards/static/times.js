// Times: UTC or local, and "3 min ago" beside those that have data-ago. The text that the server sent
// is UTC and stays what is copied without JavaScript.
"use strict";
(() => {
  const read = () => {
    try { return localStorage.getItem("zone") === "local" ? "local" : "UTC"; } catch { return "UTC"; }
  };
  let zone = read();
  const two = (number) => String(number).padStart(2, "0");
  const local = (moment) => {
    const ahead = -moment.getTimezoneOffset();
    const sign = ahead < 0 ? "-" : "+";
    const offset = `${sign}${two(Math.floor(Math.abs(ahead) / 60))}:${two(Math.abs(ahead) % 60)}`;
    const date = `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
    const time = `${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())}`;
    return { date, time, offset };
  };
  const ago = (seconds) => {
    const past = Math.abs(seconds);
    const said = past < 60 ? `${past} s`
      : past < 3600 ? `${Math.floor(past / 60)} min`
      : past < 172800 ? `${Math.floor(past / 3600)} h ${Math.floor((past % 3600) / 60)} min`
      : `${Math.floor(past / 86400)} d`;
    return seconds < 0 ? `in ${said}` : `${said} ago`;
  };
  // The clock of this computer may be wrong by hours: "ago" is by the server's, which wrote its time
  // into the page as it sent it.
  const ahead = Date.now() - Number(document.body.dataset.now || Date.now());
  const skew = Math.abs(ahead) > 30000 ? ahead : 0;
  // A time without its date is of today. On a day of 25 hours, on which clocks are put back, 02:30
  // comes twice: a time of before or after that has its offset.
  const short = ({ date, time, offset }, today) => {
    if (date !== today.date) return `${date}T${time}${offset}`;
    return offset === today.offset ? time : `${time}${offset}`;
  };
  const show = () => {
    const now = Date.now() - skew;
    const today = local(new Date(now));
    for (const one of document.querySelectorAll("time[datetime]")) {
      const moment = new Date(one.dateTime);
      if (Number.isNaN(moment.getTime())) continue;
      const clock = one.dataset.form === "clock";
      const here = local(moment);
      const utc = clock ? `${one.dateTime.slice(11, 19)}Z` : one.dateTime;
      const text = zone === "UTC" ? utc : clock ? short(here, today) : `${here.date}T${here.time}${here.offset}`;
      if (one.textContent !== text) one.textContent = text;
      if (one.hasAttribute("data-ago")) {
        // With spaces at which no line breaks: it stays together.
        const said = ago(Math.floor((now - moment.getTime()) / 1000)).replaceAll(" ", "\u00a0");
        if (one.dataset.said !== said) one.dataset.said = said;
      }
    }
  };
  const button = document.querySelector("[data-switch=zone]");
  const name = () => { button.textContent = `Times: ${zone}`; };
  if (button) {
    name();
    button.parentElement.hidden = false;
    button.addEventListener("click", () => {
      zone = zone === "UTC" ? "local" : "UTC";
      try { localStorage.setItem("zone", zone); } catch { /* it holds for this page only */ }
      name();
      show();
    });
  }
  show();
  setInterval(show, 1000);
  document.addEventListener("tallymark:shown", show);
})();
