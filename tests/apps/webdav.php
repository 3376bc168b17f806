<?php
// A store of files by WebDAV (RFC 4918), with uploads in pieces as Nextcloud's clients send them: MKCOL of a directory of uploads, PUT of
// each piece, MOVE of its ".file" to the destination.
$root = $_SERVER['STORE'];
$path = fn (string $uri) => $root . rawurldecode(substr(parse_url($uri, PHP_URL_PATH), strlen($_SERVER['SCRIPT_NAME'])));
$here = $path($_SERVER['REQUEST_URI']);
$end = function (int $status) { http_response_code($status); exit; };
$target = fn () => isset($_SERVER['HTTP_DESTINATION']) ? $path($_SERVER['HTTP_DESTINATION']) : $end(400);
header('Cache-Control: max-age=600');
switch ($_SERVER['REQUEST_METHOD']) {
    case 'MKCOL':
        $end(@mkdir($here) ? 201 : 405);
    case 'PUT':
        $before = file_exists($here);
        $length = stream_copy_to_stream(fopen('php://input', 'rb'), fopen($here, 'wb'));
        $end($length === (int) $_SERVER['CONTENT_LENGTH'] ? ($before ? 204 : 201) : 500);
    case 'MOVE':
        $to = $target();
        $before = file_exists($to);
        if ($before && ($_SERVER['HTTP_OVERWRITE'] ?? 'T') === 'F') {
            $end(412);
        }
        if (basename($here) !== '.file') {
            $end(rename($here, $to) ? ($before ? 204 : 201) : 500);
        }
        $out = fopen($to, 'wb');
        $pieces = glob(dirname($here) . '/*');
        natsort($pieces);
        $length = 0;
        foreach ($pieces as $piece) {
            $length += stream_copy_to_stream(fopen($piece, 'rb'), $out);
            unlink($piece);
        }
        rmdir(dirname($here));
        $end($length === (int) $_SERVER['HTTP_OC_TOTAL_LENGTH'] ? ($before ? 204 : 201) : 400);
    case 'COPY':
        $end(copy($here, $target()) ? 201 : 500);
    case 'DELETE':
        $end(unlink($here) ? 204 : 404);
    case 'PROPFIND':
    case 'REPORT':
        $depth = $_SERVER['HTTP_DEPTH'] ?? 'infinity';
        preg_match('/<(?:\w+:)?([a-z-]+)/', file_get_contents('php://input'), $element);
        http_response_code(207);
        header('Content-Type: application/xml; charset=utf-8');
        echo '<multistatus request="', $element[1], '" depth="', $depth, '">';
        foreach ($depth === '0' ? [$here] : array_merge([$here], glob("$here/*")) as $file) {
            echo '<response><href>', substr($file, strlen($root)), '</href><length>', is_dir($file) ? '' : filesize($file), '</length></response>';
        }
        exit('</multistatus>');
    case 'LOCK':
        header("Lock-Token: <urn:{$_SERVER['HTTP_TIMEOUT']}>");
        $end(200);
    case 'UNLOCK':
        $end($_SERVER['HTTP_LOCK_TOKEN'] === '<urn:Second-60>' ? 204 : 409);
    case 'OPTIONS':
        header('DAV: 1, 2');
        exit;
    default:
        is_file($here) ? readfile($here) : $end(404);
}
