// Orders by their number in the path, a page that is loaded when it is opened, and the release that was built.
import { lazy, Suspense, useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import './app.css';

const About = lazy(() => import('./about.jsx'));

function usePath() {
  const [path, setPath] = useState(location.pathname);
  useEffect(() => {
    const follow = () => setPath(location.pathname);
    addEventListener('popstate', follow);
    return () => removeEventListener('popstate', follow);
  }, []);
  const go = (event) => {
    event.preventDefault();
    history.pushState(null, '', event.currentTarget.pathname);
    setPath(location.pathname);
  };
  return [path, go];
}

function Order({ number }) {
  const [order, setOrder] = useState();
  useEffect(() => {
    void fetch(`/api/orders/${number}`).then(async (it) => setOrder(await it.json()));
  }, [number]);
  return <p>{order ? `Order ${order.number}: ${order.dish}` : 'Loading'}</p>;
}

function App() {
  const [path, go] = usePath();
  const number = /^\/orders\/(\d+)$/.exec(path)?.[1];
  return (
    <main>
      <h1>Release {import.meta.env.VITE_RELEASE}</h1>
      <a href="/orders/8" onClick={go}>The next order</a> <a href="/about" onClick={go}>About</a>
      {number && <Order number={number} />}
      {path === '/about' && <Suspense fallback="Loading"><About /></Suspense>}
    </main>
  );
}

createRoot(document.getElementById('root')).render(<App />);
